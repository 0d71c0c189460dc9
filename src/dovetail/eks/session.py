"""Cluster session: the open AWS and API server connections of one command.

Four layers, from the outside in:

- ``ClusterSession`` (here): desired resources, clients and handlers of one
  command; it observes and plans.
- ``eks.aws_client.AwsClient``: AWS calls for the cluster, with pages, retries on
  conflict and waiting.
- ``eks.kubernetes.api.ApiAccess``: connection to the cluster's API server, once
  the cluster exists.
- ``aws.session``: boto3 clients in threads, with retries on throttling.

``run_in_session`` opens all of them, takes the cluster's lock if the command may
write, and closes everything at the end. In a read-only command the write fence
``refuse_writes`` runs before every AWS and Kubernetes call that changes something.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from dovetail.aws.errors import AwsError
from dovetail.aws.session import MAX_THREADS, AwsSession
from dovetail.eks.apply.executor import HandlerExecutor
from dovetail.eks.apply.existing_cluster import ExistingClusterError, examine_existing_cluster
from dovetail.eks.apply.lock import cluster_lock
from dovetail.eks.apply.observer import Observer
from dovetail.eks.apply.ownership import check_ownership
from dovetail.eks.apply.preflight import (
    existing_subnet_errors,
    validate_access_mode,
    validate_encryption,
    validate_existing_subnets,
    validate_foreign_tags,
    validate_network_config,
    validate_replacements,
    validate_version_change,
)
from dovetail.eks.apply.usage import keep_used, with_drift
from dovetail.eks.aws_client import AwsClient, PollSettings
from dovetail.eks.aws_errors import with_advice
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.addons import file_notes, unpinned_addons
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.desired.kept_subnets import keep_subnets
from dovetail.eks.desired.names import uses_existing_cluster
from dovetail.eks.desired.zones import with_account_zones
from dovetail.eks.kubernetes.api import ApiAccess
from dovetail.eks.kubernetes.helm import Helm, HelmCli
from dovetail.eks.plan.planner import Plan, plan_changes
from dovetail.eks.plan.resource import Account, DesiredResource, ObservedState
from dovetail.eks.resources.ec2.vpc import account_zones, zones_in_use
from dovetail.eks.resources.eks.access import find_foreign_admins
from dovetail.eks.resources.eks.clusters import cluster_version, newest_addon_versions
from dovetail.eks.resources.handler import Handler
from dovetail.eks.resources.iam import with_names_in_use
from dovetail.eks.resources.registry import handlers
from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.connection import no_fence
from dovetail.model.cloud.partitions import dns_suffix
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.executor import Executor

T = TypeVar("T")


class ReadOnlyError(DovetailError):
    """A read-only command tried to change something."""


class ClusterSession(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a command needs; created by ``open_session``."""

    config: ClusterConfig
    desired: Sequence[DesiredResource]
    aws: AwsClient
    api_access: ApiAccess
    handlers: Sequence[Handler]
    observer: Observer

    async def observe(self) -> ObservedState:
        """Return the resources that exist; changes nothing."""
        return await self.observer.observe(self.desired)

    async def plan(self) -> tuple[Plan, ObservedState]:
        """Observe and plan; raises an error for what cannot be applied."""
        observed = await self.observe()
        desired = keep_subnets(self.desired, observed, self.config)
        advice = await self._examine_existing_cluster(desired, observed)
        validate_existing_subnets(desired, observed)
        check_ownership(desired, observed, self.config.name)
        validate_version_change(desired, observed)
        validate_access_mode(desired, observed)
        validate_encryption(desired, observed)
        validate_network_config(desired, observed)
        validate_foreign_tags(observed)
        plan = plan_changes(desired, observed)
        plan = msgspec.structs.replace(plan, notes=tuple(file_notes(self.config)))
        validate_replacements(plan, observed)
        plan = await keep_used(plan, self.aws)
        plan = await with_drift(plan, desired, self.aws)
        notes = await self._creator_notes(observed)
        return msgspec.structs.replace(plan, kept=(*plan.kept, *notes), advice=advice), observed

    async def _creator_notes(self, observed: ObservedState) -> list[str]:
        """Return a note for each administrator who may be the cluster's creator.

        EKS decides at creation whether the creator is one, and does not say who it was.
        """
        address = f"eks-cluster/{self.config.name}"
        is_ours = address in observed.resources and not self.uses_existing_cluster
        if self.config.access.creator_is_admin or self.config.access.mode != "entries" or not is_ours:
            return []
        known = {
            str(resource.properties["PrincipalArn"])
            for resource in observed.resources.values()
            if resource.kind == "eks-access-entry"
        }
        return [
            f"access.creatorIsAdmin: {principal} is an administrator that the file does not name, perhaps "
            "the creator of the cluster; EKS cannot change that later. To take the access away: aws eks "
            f"delete-access-entry --cluster-name {self.config.name} --principal-arn {principal}"
            for principal in await find_foreign_admins(self.aws, known)
        ]

    async def _examine_existing_cluster(
        self, desired: Sequence[DesiredResource], observed: ObservedState
    ) -> tuple[str, ...]:
        """Return advice about an existing cluster; raises an error with all that is wrong."""
        if not self.uses_existing_cluster:
            return ()
        kube = await self.api_access.connect()
        report = await examine_existing_cluster(self.config, desired, self.aws, kube)
        errors = [*report.errors, *existing_subnet_errors(desired, observed)]
        if report.errors:
            raise ExistingClusterError("\n".join([*errors, "nothing was changed"]))
        return report.advice

    async def plan_when_settled(self, report: Callable[[str], None]) -> tuple[Plan, ObservedState]:
        """Plan once no resource is in transition; ``report`` says what is waited for."""
        reported: set[str] = set()

        async def poll() -> tuple[Plan, ObservedState] | None:
            plan, observed = await self.plan()
            addresses = sorted(resource.address for resource in plan.unsettled)
            for address in addresses:
                if address not in reported:
                    reported.add(address)
                    report(f"waiting for {address}, which is being created or updated")
            return None if addresses else (plan, observed)

        return await self.aws.wait_for("resources that are being created or updated", poll)

    def executor(self, observed: ObservedState) -> HandlerExecutor:
        return HandlerExecutor(self.handlers, desired=self.desired, observed=observed)

    @property
    def uses_existing_cluster(self) -> bool:
        """True if the EKS cluster is external: never created, updated or deleted."""
        return any(resource.kind == "eks-cluster" and resource.external for resource in self.desired)


@asynccontextmanager
async def open_session(
    config: ClusterConfig,
    *,
    aws_session: AwsSession,
    loop: EventLoop,
    polling: PollSettings | None = None,
    may_write: bool = False,
    helm: Callable[[ApiAccess], Helm] = HelmCli,
    api_access: type[ApiAccess] = ApiAccess,
) -> AsyncIterator[ClusterSession]:
    """Yield a session in the account of the credentials.

    ``may_write`` fences Kubernetes writes; ``aws_session`` has its own fence.
    """
    account = await resolve_account(aws_session, config)
    aws = AwsClient(
        session=aws_session,
        loop=loop,
        account=account,
        cluster=config.name,
        prefix=config.iam.prefix,
        polling=polling,
    )
    config = await with_names_in_use(aws, config)
    if uses_existing_cluster(config):
        # What we add to an external cluster follows its version, not the file's.
        config = config.model_copy(update={"version": await cluster_version(aws) or config.version})
    addon_versions = await newest_addon_versions(aws, unpinned_addons(config), config.version)
    if not uses_existing_cluster(config) and not (config.vpc and config.vpc.existing):
        config = with_account_zones(config, await account_zones(aws), await zones_in_use(aws))
    access = api_access(aws, fence=no_fence if may_write else refuse_writes)
    handler_groups = handlers(aws, access, helm(access))
    try:
        yield ClusterSession(
            config=config,
            desired=desired_state(config, addon_versions=addon_versions, today=loop.now().date()),
            aws=aws,
            api_access=access,
            handlers=[handler for group in handler_groups for handler in group],
            observer=Observer(loop=loop, account=account, cluster=config.name, handler_groups=handler_groups),
        )
    finally:
        await access.close()


def run_in_session(
    config: ClusterConfig,
    work: Callable[[ClusterSession], Awaitable[T]],
    *,
    lock_directory: Path | None = None,
) -> T:
    """Open a session, run ``work`` in it, and close it.

    With ``lock_directory`` the session may write and holds the cluster's lock there.
    Without it every call that would change something raises ``ReadOnlyError``.
    """

    async def run() -> T:
        async with _command_session(config, lock_directory) as session:
            return await work(session)

    return asyncio.run(run())


@asynccontextmanager
async def _command_session(
    config: ClusterConfig, lock_directory: Path | None
) -> AsyncIterator[ClusterSession]:
    may_write = lock_directory is not None
    loop = AsyncioEventLoop()
    threads = ThreadExecutor(MAX_THREADS, name="aws")
    try:
        aws_session = _aws_session(config, loop, threads, may_write=may_write)
        opening = open_session(config, aws_session=aws_session, loop=loop, may_write=may_write)
        async with opening as session:
            with ExitStack() as stack:
                if lock_directory is not None:
                    stack.enter_context(
                        cluster_lock(session.aws.account, config.name, directory=lock_directory)
                    )
                yield session
    finally:
        threads.close()


def _aws_session(config: ClusterConfig, loop: EventLoop, threads: Executor, *, may_write: bool) -> AwsSession:
    try:
        return AwsSession(
            loop=loop,
            executor=threads,
            random=SystemRandomSource(),
            region=config.region,
            fence=no_fence if may_write else refuse_writes,
        )
    except AwsError as error:
        raise with_advice(error, "sts") from error


async def resolve_account(aws_session: AwsSession, config: ClusterConfig) -> Account:
    """Return the account of the credentials; raises if the file names another one."""
    sts = aws_session.client("sts")
    try:
        identity = await aws_session.call("GetCallerIdentity", sts.get_caller_identity)
    except AwsError as error:
        raise with_advice(error, "sts") from error
    account, partition = identity["Account"], identity["Arn"].split(":")[1]
    if config.account is not None and config.account != account:
        raise DovetailError(
            f"account: is {config.account}, but the credentials belong to {account}; use other "
            "credentials (AWS_PROFILE), or change the file"
        )
    return Account(
        account=account, region=config.region, partition=partition, dns_suffix=dns_suffix(partition)
    )


def refuse_writes() -> None:
    """Write fence of read-only commands: raise ``ReadOnlyError``."""
    raise ReadOnlyError("internal error: a read-only command tried to change something")
