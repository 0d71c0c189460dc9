"""Token webhook that authenticates AWS principals to the API server, as EKS does.

A token is a presigned GetCallerIdentity request to STS, valid for one cluster. The
webhook verifies the signature, because moto does not. STS returns the principal; access
entries and the aws-auth ConfigMap map it to a Kubernetes user.
"""

import hmac
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import msgspec
import yaml
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from dovetail.host.clock import SystemClock
from tests.support.moto.eks import Eks, Raw

_PREFIX = "k8s-aws-v1."
_HEADER = "x-k8s-aws-id"
_TOKEN_LIFETIME = timedelta(minutes=15)
_POLICIES = {"AmazonEKSClusterAdminPolicy": "system:masters"}
"""Kubernetes group that grants the same as an EKS access policy."""


class User(msgspec.Struct, frozen=True):
    """A Kubernetes user."""

    name: str
    groups: tuple[str, ...]


class Authenticator:
    """Authenticator for the clusters of an account; ``aws_auth`` reads the ConfigMap."""

    def __init__(self, eks: Eks, sts: str, aws_auth: Callable[[], Mapping[str, str]]) -> None:
        self._eks = eks
        self._sts = sts
        self._aws_auth = aws_auth

    def user(self, token: str) -> User | None:
        """Return the user of a token; None if no cluster accepts it."""
        try:
            url = _decoded(token)
            arn = self._caller(url)
        except (ValueError, KeyError, IndexError):
            return None
        for name, (cluster, parts) in self._eks.seen().items():
            if _is_signed_for(url, name):
                return self._user_of(arn, cluster, parts["access-entries"])
        return None

    def _caller(self, url: str) -> str:
        """Return the ARN of the caller.

        moto needs an Authorization header to route the request to STS.
        """
        if not url.startswith(f"{self._sts}/?"):
            raise ValueError("not the URL of this STS")
        scope = parse_qs(urlsplit(url).query)["X-Amz-Credential"][0]
        header = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none"
        request = Request(url, headers={"Authorization": header, "Accept": "application/json"})  # noqa: S310
        with urlopen(request, timeout=10) as response:  # noqa: S310
            text = response.read().decode()
        return str(text.partition("<Arn>")[2].partition("</Arn>")[0])

    def _user_of(self, arn: str, cluster: Raw, entries: Mapping[str, Raw]) -> User | None:
        mode = (cluster.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
        principal = _principal(arn)
        if _creator_is_admin(cluster) and principal == _principal_of_key(self._eks.creators[cluster["name"]]):
            return User(principal, ("system:masters",))
        if mode != "CONFIG_MAP" and principal in entries:
            return _entry_user(entries[principal])
        return _aws_auth_user(principal, self._aws_auth()) if mode != "API" else None


@contextmanager
def serve_webhook(authenticator: Authenticator) -> Iterator[str]:
    """Serve TokenReviews for the duration of the block; yield the URL."""

    class Handler(_Webhook):
        tokens = authenticator

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Webhook(BaseHTTPRequestHandler):
    tokens: Authenticator

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        user = self.tokens.user(review["spec"]["token"])
        review["status"] = {"authenticated": user is not None}
        if user is not None:
            review["status"]["user"] = {"username": user.name, "groups": list(user.groups)}
        text = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _decoded(token: str) -> str:
    if not token.startswith(_PREFIX):
        raise ValueError("not an EKS token")
    encoded = token.removeprefix(_PREFIX)
    return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


def _is_signed_for(url: str, cluster: str) -> bool:
    """Return True if the signature is valid for a cluster."""
    parts = urlsplit(url)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    key, _, region, service, _ = query["X-Amz-Credential"].split("/")
    when = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if service != "sts" or abs(SystemClock().now() - when) > _TOKEN_LIFETIME:
        return False
    if query["Action"] != "GetCallerIdentity" or _HEADER not in query["X-Amz-SignedHeaders"]:
        return False
    unsigned = url.partition("&X-Amz-Signature=")[0]
    request = AWSRequest("GET", unsigned, headers={_HEADER: cluster, "host": parts.netloc})
    request.context["timestamp"] = query["X-Amz-Date"]
    secret = _secret(key)
    if secret is None:
        return False
    signer = SigV4QueryAuth(Credentials(key, secret), service, region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return hmac.compare_digest(signer.signature(text, request), query["X-Amz-Signature"])


def _secret(key: str) -> str | None:
    users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].access_keys
    if key in users:
        return str(users[key].secret_access_key)
    roles = sts_backends[DEFAULT_ACCOUNT_ID]["aws"].assumed_roles
    return next((str(role.secret_access_key) for role in roles if role.access_key_id == key), None)


def _principal(arn: str) -> str:
    """Return the role of an assumed-role session, without its path, as on EKS."""
    if ":assumed-role/" not in arn:
        return arn
    account, role = arn.split(":")[4], arn.split("/")[1]
    return f"arn:aws:iam::{account}:role/{role}"


def _principal_of_key(key: str) -> str:
    access_key = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].access_keys[key]
    return f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:user/{access_key.user_name}"


def _creator_is_admin(cluster: Raw) -> bool:
    config = cluster.get("accessConfig") or {}
    return bool(config.get("bootstrapClusterCreatorAdminPermissions", True))


def _entry_user(entry: Raw) -> User:
    policies = (policy.rpartition("/")[2] for policy in entry.get("policies") or ())
    groups = (*(entry.get("kubernetesGroups") or ()), *_groups_of(policies))
    return User(entry.get("username") or entry["principalArn"], tuple(groups))


def _groups_of(policies: Iterable[str]) -> Iterator[str]:
    for policy in policies:
        if policy in _POLICIES:
            yield _POLICIES[policy]


def _aws_auth_user(principal: str, data: Mapping[str, str]) -> User | None:
    for key, field in (("mapRoles", "rolearn"), ("mapUsers", "userarn")):
        for mapping in yaml.safe_load(data.get(key) or "[]"):
            if mapping[field] == principal:
                return User(mapping["username"], tuple(mapping.get("groups") or ()))
    if principal.split(":")[4] in map(str, yaml.safe_load(data.get("mapAccounts") or "[]")):
        return User(principal, ())
    return None
