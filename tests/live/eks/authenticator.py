"""Who a token of AWS's is, told to the API server as EKS tells it.

The API server hands tokens to this webhook. A token is a question to STS, signed by
the caller for one cluster; whoever holds it may ask it. The signature is checked here,
because moto checks none; STS says whose it is; the cluster's access entries and its
aws-auth ConfigMap say what Kubernetes calls them.
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

from dovetail.host.clock import RealClock
from tests.support.moto.eks import Eks, Raw

_PREFIX = "k8s-aws-v1."
_HEADER = "x-k8s-aws-id"
_LONGEST = timedelta(minutes=15)
_POLICIES = {"AmazonEKSClusterAdminPolicy": "system:masters"}
"""Which group stands for what EKS's own authorizer would allow."""


class User(msgspec.Struct, frozen=True):
    """Somebody, in Kubernetes' words."""

    name: str
    groups: tuple[str, ...]


class Authenticator:
    """Knows the clusters of one account; ``aws_auth`` reads the ConfigMap of theirs."""

    def __init__(self, eks: Eks, sts: str, aws_auth: Callable[[], Mapping[str, str]]) -> None:
        self._eks = eks
        self._sts = sts
        self._aws_auth = aws_auth

    def user(self, token: str) -> User | None:
        """Return who this is; None if nobody that any cluster of ours knows."""
        try:
            url = _unpacked(token)
            arn = self._caller(url)
        except (ValueError, KeyError, IndexError):
            return None
        for name, (cluster, parts) in self._eks.seen().items():
            if _is_signed_for(url, name):
                return self._known(arn, cluster, parts["access-entries"])
        return None

    def _caller(self, url: str) -> str:
        """Ask the question; moto does not see by the query alone that it is for STS."""
        if not url.startswith(f"{self._sts}/?"):
            raise ValueError("this is not our STS")
        scope = parse_qs(urlsplit(url).query)["X-Amz-Credential"][0]
        header = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=asked"
        request = Request(url, headers={"Authorization": header, "Accept": "application/json"})  # noqa: S310
        with urlopen(request, timeout=10) as answer:  # noqa: S310
            text = answer.read().decode()
        return str(text.partition("<Arn>")[2].partition("</Arn>")[0])

    def _known(self, arn: str, cluster: Raw, entries: Mapping[str, Raw]) -> User | None:
        mode = (cluster.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
        principal = _principal(arn)
        if _creator_is_admin(cluster) and principal == _principal_of_key(
            self._eks.creators[cluster["name"]]
        ):
            return User(principal, ("system:masters",))
        if mode != "CONFIG_MAP" and principal in entries:
            return _of_entry(entries[principal])
        return _mapped(principal, self._aws_auth()) if mode != "API" else None


@contextmanager
def serving(authenticator: Authenticator) -> Iterator[str]:
    """Answer TokenReviews for a while; leads to the address."""

    class Handler(_Webhook):
        who = authenticator

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
    who: Authenticator

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        user = self.who.user(review["spec"]["token"])
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
        """Tests tell what matters."""


def _unpacked(token: str) -> str:
    if not token.startswith(_PREFIX):
        raise ValueError("no token of EKS's")
    packed = token.removeprefix(_PREFIX)
    return urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()


def _is_signed_for(url: str, cluster: str) -> bool:
    """Sign the same question for a cluster, and compare."""
    parts = urlsplit(url)
    asked = {key: one[0] for key, one in parse_qs(parts.query).items()}
    key, _, region, service, _ = asked["X-Amz-Credential"].split("/")
    when = datetime.strptime(asked["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if service != "sts" or abs(RealClock().now() - when) > _LONGEST:
        return False
    if asked["Action"] != "GetCallerIdentity" or _HEADER not in asked["X-Amz-SignedHeaders"]:
        return False
    bare = url.partition("&X-Amz-Signature=")[0]
    request = AWSRequest("GET", bare, headers={_HEADER: cluster, "host": parts.netloc})
    request.context["timestamp"] = asked["X-Amz-Date"]
    secret = _secret(key)
    if secret is None:
        return False
    signer = SigV4QueryAuth(Credentials(key, secret), service, region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return hmac.compare_digest(signer.signature(text, request), asked["X-Amz-Signature"])


def _secret(key: str) -> str | None:
    users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].access_keys
    if key in users:
        return str(users[key].secret_access_key)
    roles = sts_backends[DEFAULT_ACCOUNT_ID]["aws"].assumed_roles
    return next((str(one.secret_access_key) for one in roles if one.access_key_id == key), None)


def _principal(arn: str) -> str:
    """Return the role that a session is of; paths of roles are not in it, as on EKS."""
    if ":assumed-role/" not in arn:
        return arn
    account, role = arn.split(":")[4], arn.split("/")[1]
    return f"arn:aws:iam::{account}:role/{role}"


def _principal_of_key(key: str) -> str:
    held = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].access_keys[key]
    return f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:user/{held.user_name}"


def _creator_is_admin(cluster: Raw) -> bool:
    config = cluster.get("accessConfig") or {}
    return bool(config.get("bootstrapClusterCreatorAdminPermissions", True))


def _of_entry(entry: Raw) -> User:
    policies = (one.rpartition("/")[2] for one in entry.get("policies") or ())
    groups = (*(entry.get("kubernetesGroups") or ()), *_groups_of(policies))
    return User(entry.get("username") or entry["principalArn"], tuple(groups))


def _groups_of(policies: Iterable[str]) -> Iterator[str]:
    for one in policies:
        if one in _POLICIES:
            yield _POLICIES[one]


def _mapped(principal: str, data: Mapping[str, str]) -> User | None:
    for key, field in (("mapRoles", "rolearn"), ("mapUsers", "userarn")):
        for one in yaml.safe_load(data.get(key) or "[]"):
            if one[field] == principal:
                return User(one["username"], tuple(one.get("groups") or ()))
    if principal.split(":")[4] in map(str, yaml.safe_load(data.get("mapAccounts") or "[]")):
        return User(principal, ())
    return None
