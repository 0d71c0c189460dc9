"""A cluster.yaml and the account it is about: looked at, planned, and opened for a while."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from dovetail.aws.faults import AwsError
from dovetail.aws.session import Aws
from dovetail.errors import DovetailError
from dovetail.infra.desired import wanted
from dovetail.infra.executing import RealExecutor
from dovetail.infra.handling import Handler
from dovetail.infra.helm import Helm, HelmProgram
from dovetail.infra.kinds import handlers
from dovetail.infra.kubedoor import KubeDoor
from dovetail.infra.lodging import check_subnets
from dovetail.infra.observing import Observer
from dovetail.infra.owning import check_owners
from dovetail.infra.planning import Plan, plan
from dovetail.infra.reach import Pace, Reach
from dovetail.infra.refusing import to_a_person
from dovetail.infra.resources import Account, Observed, Resource
from dovetail.infra.spec.cluster import ClusterSpec
from dovetail.infra.upgrading import check_version
from dovetail.ports.loop import Loop


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
