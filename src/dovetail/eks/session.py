"""A cluster.yaml and the account it is about: looked at, planned, and opened for a while."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from dovetail.aws.errors import AwsError
from dovetail.aws.session import Aws
from dovetail.eks.apply.executor import RealExecutor
from dovetail.eks.apply.observer import Observer
from dovetail.eks.apply.ownership import check_owners
from dovetail.eks.apply.subnet_check import check_subnets
from dovetail.eks.apply.version_check import check_version
from dovetail.eks.aws_client import Pace, Reach
from dovetail.eks.aws_errors import to_a_person
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.desired.desired_state import wanted
from dovetail.eks.kubernetes.api import KubeDoor
from dovetail.eks.kubernetes.helm import Helm, HelmProgram
from dovetail.eks.plan.planner import Plan, plan
from dovetail.eks.plan.resource import Account, Observed, Resource
from dovetail.eks.resources.handler import Handler
from dovetail.eks.resources.registry import handlers
from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Loop


class ReadOnly(DovetailError):
    """Something tried to write while only looking was meant."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """All that a command needs; made by ``open_site``."""

    spec: ClusterSpec
    wanted: Sequence[Resource]
    reach: Reach
    door: KubeDoor
    handlers: Sequence[Handler]
    observer: Observer

    async def observe(self) -> Observed:
        """Look at what is there; nothing is changed."""
        return await self.observer.observe(self.wanted)

    async def plan(self) -> tuple[Plan, Observed]:
        """Look, and say what would have to be done; raises what cannot be."""
        observed = await self.observe()
        check_subnets(self.wanted, observed)
        check_owners(self.wanted, observed, self.spec.name)
        check_version(self.wanted, observed)
        return plan(self.wanted, observed), observed

    async def settled_plan(self, tell: Callable[[str], None]) -> tuple[Plan, Observed]:
        """Plan once nothing is on its way any more; ``tell`` what is waited for."""
        said: set[str] = set()

        async def look() -> tuple[Plan, Observed] | None:
            found, observed = await self.plan()
            moving = sorted(one.address for one in found.unsettled)
            for one in moving:
                if one not in said:
                    said.add(one)
                    tell(f"waiting for {one}, which is being made or changed")
            return None if moving else (found, observed)

        return await self.reach.until("what is being made or changed", look)

    def executor(self, observed: Observed) -> RealExecutor:
        return RealExecutor(self.handlers, wanted=self.wanted, observed=observed)

    @property
    def is_guest(self) -> bool:
        """Whether the cluster itself was there before us, and stays."""
        return any(one.kind == "eks-cluster" and one.given for one in self.wanted)


@asynccontextmanager
async def open_site(
    spec: ClusterSpec,
    *,
    aws: Aws,
    loop: Loop,
    pace: Pace | None = None,
    may_write: bool = False,
    helm: Callable[[KubeDoor], Helm] = HelmProgram,
) -> AsyncIterator[Site]:
    """Lead to a site in the account that the credentials are of.

    ``aws`` has a guard of its own; ``may_write`` is about the cluster's objects.
    """
    account = await whose(aws, spec)
    reach = Reach(
        aws=aws,
        loop=loop,
        account=account,
        cluster=spec.name,
        prefix=spec.iam.prefix,
        pace=pace,
    )
    door = KubeDoor(reach, guard=_let_pass if may_write else refuse_to_write)
    goes = handlers(reach, door, helm(door))
    observer = Observer(loop=loop, account=account, cluster=spec.name, goes=goes)
    try:
        yield Site(
            spec=spec,
            wanted=wanted(spec),
            reach=reach,
            door=door,
            handlers=[one for go in goes for one in go],
            observer=observer,
        )
    finally:
        await door.close()


async def whose(aws: Aws, spec: ClusterSpec) -> Account:
    """Return whose credentials these are; refuses any but the account the file names."""
    sts = aws.client("sts")
    try:
        told = await aws.call("GetCallerIdentity", sts.get_caller_identity)
    except AwsError as error:
        raise to_a_person(error, "sts") from error
    account, partition = told["Account"], told["Arn"].split(":")[1]
    if spec.account is not None and spec.account != account:
        raise DovetailError(
            f"account: is {spec.account}, and the credentials are of {account}; use others "
            "(AWS_PROFILE), or change the file"
        )
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return Account(account=account, region=spec.region, partition=partition, dns_suffix=suffix)


def refuse_to_write() -> None:
    """Guard that lets nothing pass."""
    raise ReadOnly("this command only looks: a bug tried to change something")


def _let_pass() -> None:
    """Guard nothing."""
