"""Tokens with which EKS knows who we are: a signed question to STS that EKS asks for us."""

from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from dovetail.aws.session import Aws
from dovetail.kube.auth.credentials import NoCredentials
from dovetail.ports.event_loop import Clock

_PREFIX: Final = "k8s-aws-v1."
_HEADER: Final = "x-k8s-aws-id"
_SIGNED_FOR: Final = 60
"""Seconds; EKS takes the token for fifteen minutes whatever stands here."""
_RENEWED_AFTER: Final = timedelta(minutes=10)


class EksToken:
    """``kube.auth.credentials.Credentials`` for one cluster; no program has to be installed."""

    def __init__(self, aws: Aws, *, cluster: str, clock: Clock) -> None:
        self._aws = aws
        self._cluster = cluster
        self._clock = clock
        self._known = ""
        self._signed_at: datetime | None = None

    async def token(self, *, refused: bool = False) -> str:
        now = self._clock.now()
        if refused or self._signed_at is None or now - self._signed_at >= _RENEWED_AFTER:
            self._known = self._signed()
            self._signed_at = now
        return self._known

    def _signed(self) -> str:
        credentials = self._aws.credentials()
        if credentials is None:
            raise NoCredentials("there are no AWS credentials to sign a token with")
        asked = urlencode({"Action": "GetCallerIdentity", "Version": "2011-06-15"})
        url = f"{self._aws.client('sts').meta.endpoint_url}/?{asked}"
        request = AWSRequest("GET", url, headers={_HEADER: self._cluster})
        SigV4QueryAuth(credentials, "sts", self._aws.region, expires=_SIGNED_FOR).add_auth(request)
        return _PREFIX + urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")
