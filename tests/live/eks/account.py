"""An AWS account whose EKS clusters are a real control plane, and commands run in it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.live.eks import awsprogram
from tests.live.eks.api import Api
from tests.live.eks.authenticator import Authenticator, serving
from tests.live.eks.internet import Internet, an_internet
from tests.live.eks.life import Life
from tests.live.eks.programs import Programs
from tests.live.fixtures import running_control_plane
from tests.live.plane import ControlPlane
from tests.support.helm import helm_binary
from tests.support.moto.door import Wsgi
from tests.support.moto.eks import Eks
from tests.support.moto.ground import Clients, Ground
from tests.support.moto.server import MotoAws, moto_aws

ROOT = Path(__file__).parents[3]
"""Where the controller's own charts are found from."""
_UNKNOWN_TO_MOTO = ("DescribeCapacityReservations", "DescribePlacementGroups")
_LONG = 240.0
"""Seconds that a command may take; most take a few, on a machine that has nothing else to do."""


class EksAccount(Ground):
    """Whose clusters are real; ``forget`` everything between two tests."""

    def __init__(
        self,
        moto: MotoAws,
        eks: Eks,
        plane: ControlPlane,
        internet: Internet,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(moto)
        self.eks, self.plane, self.internet = eks, plane, internet
        self._shared = dict(environment)
        self.folder = plane.folder
        eks.endpoint, eks.authority, eks.instant = plane.url, plane.authority, True
        self.programs = Programs(self.folder / "controllers.log")
        self.programs.identity = plane.kubeconfig_for_account
        self.life = Life(eks, Api(plane.kubeconfig), self.programs)
        for operation in _UNKNOWN_TO_MOTO:
            moto.door.answering[operation] = _nothing(operation)
        moto.door.answering["GetProducts"] = lambda _: ("application/json", b'{"PriceList": []}')

    def forget(self) -> None:
        """Begin with an account that has one user, and nothing else."""
        self.moto.reset()
        self.eks.reset()
        self.use_managed_policies()
        self.keys = self.user("operator")
        self.session = Clients(*self.keys)
        # As in every account that ever had a spot instance.
        self.client("iam").create_role(
            RoleName="AWSServiceRoleForEC2Spot",
            Path="/aws-service-role/spot.amazonaws.com/",
            AssumeRolePolicyDocument="{}",
        )
        self.programs.environment = {
            key: value for key, value in self.environment().items() if key.startswith("AWS_")
        }
        self.kubeconfig.unlink(missing_ok=True)

    @property
    def file(self) -> Path:
        """The cluster.yaml of the test."""
        return self.folder / "cluster.yaml"

    @property
    def kubeconfig(self) -> Path:
        """The user's own, which ``apply`` writes to."""
        return self.folder / "user.kubeconfig"

    def user(self, name: str) -> tuple[str, str]:
        """Make a user of IAM's; return an access key of theirs."""
        iam = Clients().client("iam", region_name="us-east-1", endpoint_url=self.moto.url)
        iam.create_user(UserName=name)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        return made["AccessKeyId"], made["SecretAccessKey"]

    def environment(self, keys: tuple[str, str] | None = None) -> dict[str, str]:
        """Return what a user's shell has; helm and the AWS CLI are on the PATH."""
        key, secret = keys or self.keys
        return {
            **self._shared,
            "PATH": f"{self._programs()}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.kubeconfig),
            "AWS_ENDPOINT_URL": self.moto.url,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def begin(self, *words: str, keys: tuple[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command of ours, as a user does."""
        return subprocess.Popen(
            [sys.executable, "-m", "dovetail", *words],
            env=self.environment(keys),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, keys: tuple[str, str] | None = None) -> "Said":
        """Run a command of ours to its end."""
        with self.begin(*words, keys=keys) as process:
            try:
                out, err = process.communicate(timeout=_LONG)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                raise AssertionError(f"{' '.join(words)} took too long\n{out}\n{err}") from None
        self.life.check()
        return Said(process.returncode, out, err)

    def as_user(self, program: str, *words: str, keys: tuple[str, str] | None = None) -> "Said":
        """Run kubectl or helm with the kubeconfig that ``apply`` has written."""
        done = subprocess.run(
            [program, *words],
            env=self.environment(keys),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def _programs(self) -> Path:
        folder = self.folder / "bin"
        if not folder.exists():
            folder.mkdir()
            (folder / "helm").symlink_to(helm_binary())
            (folder / "kubectl").symlink_to(Path(sys.executable).parent / "kubectl")
            aws = folder / "aws"
            aws.write_text(f'#!/bin/sh\nexec {sys.executable} -P {awsprogram.__file__} "$@"\n')
            aws.chmod(0o755)
        return folder


class Said:
    """How a command ended, and what it said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@contextmanager
def an_eks_account(program: Path, folder: Path) -> Iterator[EksAccount]:
    """Have such an account for a while."""
    made: list[Eks] = []
    planes: list[ControlPlane] = []

    def front(inner: Wsgi) -> Eks:
        made.append(Eks(inner))
        return made[-1]

    def aws_auth() -> Any:
        found = planes[0].try_kubectl("get", "configmap", "aws-auth", "-n=kube-system", "-o=yaml")
        return (yaml.safe_load(found.stdout) or {}).get("data") or {}

    with moto_aws(front) as moto:
        knows = Authenticator(made[0], moto.url, aws_auth)
        with (
            serving(knows) as webhook,
            an_internet(_new(folder / "internet")) as (internet, leads),
            running_control_plane(program, _new(folder / "plane"), webhook=webhook) as plane,
        ):
            planes.append(plane)
            account = EksAccount(moto, made[0], plane, internet, leads)
            with account.life.running(), account.programs.ended():
                yield account


def _nothing(operation: str) -> Callable[[bytes], tuple[str, bytes]]:
    """Return an answer of EC2's that has nothing in it."""
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    text = f'<{operation}Response xmlns="{space}"><requestId>1</requestId></{operation}Response>'
    return lambda _: ("text/xml", text.encode())


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
