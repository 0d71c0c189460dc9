"""An AWS account in moto whose EKS clusters use a real control plane."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.live.control_plane import ControlPlane
from tests.live.eks import aws_cli
from tests.live.eks.api import ApiClient
from tests.live.eks.authenticator import Authenticator, serve_webhook
from tests.live.eks.chart_registries import serve_chart_registries
from tests.live.eks.containers import Containers
from tests.live.eks.reconcile_loop import ReconcileLoop
from tests.live.fixtures import running_control_plane
from tests.support.helm.binary import helm_binary
from tests.support.moto.account import Clients, MotoAccount
from tests.support.moto.eks import Eks
from tests.support.moto.middleware import Wsgi
from tests.support.moto.server import MotoAws, moto_aws

ROOT = Path(__file__).parents[3]
"""Working directory of the commands: charts are found relative to it."""
_NOT_IN_MOTO = ("DescribeCapacityReservations", "DescribePlacementGroups")
_COMMAND_TIMEOUT = 240.0
"""Seconds; most commands take a few on an idle host."""


class EksAccount(MotoAccount):
    """An account with real clusters; ``reset`` it between tests."""

    def __init__(
        self, moto: MotoAws, eks: Eks, control_plane: ControlPlane, environment: Mapping[str, str]
    ) -> None:
        super().__init__(moto)
        self.eks, self.control_plane = eks, control_plane
        self._shared = dict(environment)
        self.folder = control_plane.folder
        eks.endpoint, eks.authority, eks.instant = control_plane.url, control_plane.authority, True
        self.containers = Containers(self.folder / "controllers.log")
        self.containers.identity = control_plane.kubeconfig_for_account
        self.loop = ReconcileLoop(eks, ApiClient(control_plane.kubeconfig), self.containers)
        for operation in _NOT_IN_MOTO:
            moto.middleware.responses[operation] = _empty_response(operation)
        moto.middleware.responses["GetProducts"] = lambda _: ("application/json", b'{"PriceList": []}')

    def reset(self) -> None:
        """Delete everything; create one user and a new kubeconfig."""
        self.moto.reset()
        self.eks.reset()
        self.use_managed_policies()
        self.keys = self.user("operator")
        self.session = Clients(*self.keys)
        # Exists in every account that ever had a spot instance.
        self.client("iam").create_role(
            RoleName="AWSServiceRoleForEC2Spot",
            Path="/aws-service-role/spot.amazonaws.com/",
            AssumeRolePolicyDocument="{}",
        )
        self.containers.environment = {
            key: value for key, value in self.environment().items() if key.startswith("AWS_")
        }
        self.kubeconfig.unlink(missing_ok=True)

    @property
    def file(self) -> Path:
        """The cluster.yaml of the test."""
        return self.folder / "cluster.yaml"

    @property
    def kubeconfig(self) -> Path:
        """The user's kubeconfig, to which ``apply`` adds a context."""
        return self.folder / "user.kubeconfig"

    def user(self, name: str) -> tuple[str, str]:
        """Create an IAM user and return an access key."""
        iam = Clients().client("iam", region_name="us-east-1", endpoint_url=self.moto.url)
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]

    def environment(self, keys: tuple[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a user's shell, with helm and the AWS CLI on the PATH."""
        key, secret = keys or self.keys
        return {
            **self._shared,
            "PATH": f"{self._commands()}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.kubeconfig),
            # Cluster locks are in the temporary directory.
            "TMPDIR": str(self.folder),
            "AWS_ENDPOINT_URL": self.moto.url,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self, *arguments: str, keys: tuple[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a ``dovetail`` command."""
        return subprocess.Popen(
            [sys.executable, "-m", "dovetail", *arguments],
            env=self.environment(keys),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, keys: tuple[str, str] | None = None) -> "CommandResult":
        """Run a ``dovetail`` command until it exits."""
        with self.start(*arguments, keys=keys) as process:
            try:
                out, err = process.communicate(timeout=_COMMAND_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                raise AssertionError(f"{' '.join(arguments)} timed out\n{out}\n{err}") from None
        self.loop.check()
        return CommandResult(process.returncode, out, err)

    def run_as_user(
        self, command: str, *arguments: str, keys: tuple[str, str] | None = None
    ) -> "CommandResult":
        """Run kubectl or helm with the kubeconfig that ``apply`` wrote."""
        result = subprocess.run(
            [command, *arguments],
            env=self.environment(keys),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return CommandResult(result.returncode, result.stdout, result.stderr)

    def _commands(self) -> Path:
        folder = self.folder / "bin"
        if not folder.exists():
            folder.mkdir()
            (folder / "helm").symlink_to(helm_binary())
            (folder / "kubectl").symlink_to(Path(sys.executable).parent / "kubectl")
            aws = folder / "aws"
            aws.write_text(f'#!/bin/sh\nexec {sys.executable} -P {aws_cli.__file__} "$@"\n')
            aws.chmod(0o755)
        return folder


class CommandResult:
    """Exit code and output of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@contextmanager
def run_eks_account(binary: Path, folder: Path) -> Iterator[EksAccount]:
    """Run an account and its control plane for the duration of the block."""
    services: list[Eks] = []
    control_planes: list[ControlPlane] = []

    def front(inner: Wsgi) -> Eks:
        services.append(Eks(inner))
        return services[-1]

    def aws_auth() -> Any:
        config_map = control_planes[0].try_kubectl(
            "get", "configmap", "aws-auth", "-n=kube-system", "-o=yaml"
        )
        return (yaml.safe_load(config_map.stdout) or {}).get("data") or {}

    with moto_aws(front) as moto:
        authenticator = Authenticator(services[0], moto.url, aws_auth)
        with (
            serve_webhook(authenticator) as webhook,
            serve_chart_registries(_new(folder / "charts")) as environment,
            running_control_plane(binary, _new(folder / "controlplane"), webhook=webhook) as control_plane,
        ):
            control_planes.append(control_plane)
            account = EksAccount(moto, services[0], control_plane, environment)
            with account.loop.running(), account.containers.stop_at_exit():
                yield account


def _empty_response(operation: str) -> Callable[[bytes], tuple[str, bytes]]:
    """Return a function that returns an empty EC2 response."""
    namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"
    text = f'<{operation}Response xmlns="{namespace}"><requestId>1</requestId></{operation}Response>'
    return lambda _: ("text/xml", text.encode())


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
