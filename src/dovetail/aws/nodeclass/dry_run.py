"""Dry run of a launch: finds missing permissions and invalid settings of a node class."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.claim_tags import cluster_tags, count_excess_tags
from dovetail.aws.errors import LAUNCH_TEMPLATE_NOT_FOUND, AwsError, ErrorKind
from dovetail.aws.launchtemplate.launch_config import LaunchAmi, LaunchConfig, UserDataContext
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplate, LaunchTemplates
from dovetail.aws.launchtemplate.template_data import (
    TemplateVariant,
    encode_tags,
    encode_template_data,
    user_data_context,
)
from dovetail.aws.session import AwsSession
from dovetail.aws.ttl_cache import TtlCache
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.core.instancetypes.capacity import EFA, NEURON
from dovetail.core.instancetypes.type_names import family_of
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator, Requirements, RequirementSpec
from dovetail.model.kube.resources import PODS, Resources
from dovetail.ports.cloudprovider import NodeClassNotReadyError
from dovetail.ports.event_loop import Clock

Failure = tuple[str, str]
"""Reason and message of the condition."""

MAX_USER_DATA_BYTES: Final = 16384
"""Limit of EC2, before Base64."""
MAX_SAMPLES: Final = 3
"""Instance types of one dry run: EC2 may reject one for a reason of the type."""
_RESULT_TTL: Final = timedelta(minutes=30)
_TENANCY: Final = f"{label_keys.AWS_DOMAIN}/instance-tenancy"
_HYPERVISOR: Final = f"{label_keys.AWS_DOMAIN}/instance-hypervisor"
_DEFAULT_TYPES: Final = {"amd64": "m5.large", "arm64": "m6g.large"}
"""Architecture → instance type, if no NodePool allows any."""
_ACCELERATORS: Final = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", NEURON, EFA)
_AUTH_REASONS: Final = {
    "CreateLaunchTemplate": "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleet": "CreateFleetAuthCheckFailed",
    "RunInstances": "RunInstancesAuthCheckFailed",
}
_TAG_POLICY_VIOLATION: Final = "TagPolicyViolation"
_INVALID_PROFILE: Final = "Invalid IAM Instance Profile name"


class DryRunSample(msgspec.Struct, frozen=True, kw_only=True):
    """The instance that a dry run requests."""

    instance_type: str
    ami: LaunchAmi
    max_pods: int = 110
    kube_reserved: Resources | None = None
    system_reserved: Resources | None = None
    pool: str = "validation"
    tenancy: str = "default"


def select_samples(
    launch_config: LaunchConfig, pools: Iterable[NodePool], types: Iterable[InstanceType]
) -> tuple[DryRunSample, ...]:
    """Select the instance types to try: allowed by a NodePool, one per family.

    ``types`` must be launchable with the node class. The result has at most
    ``MAX_SAMPLES`` entries, common types first: without accelerators, on the Nitro
    hypervisor. Without an allowed type, and for Windows, it is a default type.
    """
    requirements = {
        pool.name: Requirements.from_specs(pool.template.requirements)
        for pool in sorted(pools, key=lambda pool: pool.name)
    }
    dedicated = any(_allows_dedicated(allowed) for allowed in requirements.values())
    tenancy = "dedicated" if dedicated else "default"
    samples: dict[str, DryRunSample] = {}
    if not ami_family_facts(launch_config.node_class.ami_family).is_windows:
        for candidate in sorted(types, key=_preference):
            if len(samples) == MAX_SAMPLES:
                break
            family = family_of(candidate.name)
            if family in samples:
                continue
            ami = next((ami for ami in launch_config.amis if ami.supports(candidate)), None)
            pool = next(
                (name for name, allowed in requirements.items() if _is_allowed(candidate, allowed)), None
            )
            if ami is not None and pool is not None:
                samples[family] = DryRunSample(
                    instance_type=candidate.name,
                    ami=ami,
                    max_pods=candidate.capacity.get(PODS, 0),
                    kube_reserved=candidate.kube_reserved,
                    system_reserved=candidate.system_reserved,
                    pool=pool,
                    tenancy=tenancy,
                )
    if samples:
        return tuple(samples.values())
    ami = launch_config.amis[0]
    supports_amd64 = ami.requirements.get_or_exists(label_keys.ARCH).has("amd64")
    default = DryRunSample(
        instance_type=_DEFAULT_TYPES["amd64" if supports_amd64 else "arm64"],
        ami=ami,
        pool=next(iter(requirements), "validation"),
        tenancy=tenancy,
    )
    return (default,)


class LaunchDryRun:
    """Calls CreateFleet and RunInstances with ``DryRun``; caches the results."""

    def __init__(
        self,
        aws: AwsSession,
        *,
        templates: LaunchTemplates,
        cluster: str,
        clock: Clock,
        pools: Callable[[str], Iterable[NodePool]] = lambda _: (),
        types: Callable[[EC2NodeClass], Iterable[InstanceType]] = lambda _: (),
        disabled: bool = False,
    ) -> None:
        """``pools``: node class name → its NodePools; ``types``: its launchable types."""
        self._aws = aws
        self._templates = templates
        self._cluster = cluster
        self._pools = pools
        self._types = types
        self._disabled = disabled
        self._results: TtlCache[tuple[Failure | None]] = TtlCache(clock.now)

    async def run(self, launch_config: LaunchConfig) -> Failure | None:
        """Return why EC2 rejects launches from a node class; None if it accepts them.

        Raises ``AwsError`` if EC2 cannot be asked now.
        """
        node_class = launch_config.node_class
        samples = select_samples(launch_config, self._pools(node_class.name), self._types(node_class))
        context = user_data_context(_variant(samples[0]), _claim(samples[0]), label_keys.ON_DEMAND)
        tags = self._tags(launch_config, samples[0])
        failure = _validate_tags(launch_config, tags) or _validate_user_data(launch_config, context)
        if failure is not None or self._disabled:
            return failure
        names = tuple(sample.instance_type for sample in samples)
        key = (node_class.uid, _fingerprint(launch_config), names, samples[0].tenancy)
        cached = self._results.get(key)
        if cached is not None:
            return cached[0]
        failure = await self._try_samples(launch_config, samples)
        # IAM is eventually consistent: a missing profile may appear, so it is not cached.
        if failure is None or failure[0] != "InstanceProfileNotFound":
            self._results.put(key, (failure,), ttl=_RESULT_TTL)
        return failure

    def discard(self, uid: str) -> None:
        """Remove the results of a deleted node class."""
        self._results.discard_if(lambda key: isinstance(key, tuple) and key[0] == uid)

    async def _try_samples(
        self, launch_config: LaunchConfig, samples: Sequence[DryRunSample]
    ) -> Failure | None:
        """Try one sample after the other while EC2 rejects its parameters.

        Return the failure of the first sample if EC2 rejects all of them.
        """
        first_failure: Failure | None = None
        for sample in samples:
            try:
                await self._call(launch_config, sample)
            except AwsError as error:
                failure = _classify(error, launch_config)
                if not _may_depend_on_type(error, failure):
                    return failure
                first_failure = first_failure or failure
            else:
                return None
        return first_failure

    async def _call(self, launch_config: LaunchConfig, sample: DryRunSample) -> None:
        tags = self._tags(launch_config, sample)
        data = encode_template_data(
            _variant(sample),
            claim=_claim(sample),
            capacity_type=label_keys.ON_DEMAND,
            launch_config=launch_config,
            tags=tags,
        )
        [template] = await self._templates.ensure([LaunchTemplate(data=data, tags=tags)])
        try:
            await self._create_fleet(launch_config, sample, template, tags)
            await self._run_instances(launch_config, sample, template, data, tags)
        except AwsError as error:
            if error.code not in LAUNCH_TEMPLATE_NOT_FOUND:
                raise
            # Just created: EC2 is eventually consistent. Or another process deleted it.
            self._templates.discard([template])
            raise AwsError(
                error.operation, "Unavailable", "EC2 does not see the new launch template yet"
            ) from error

    def _tags(self, launch_config: LaunchConfig, sample: DryRunSample) -> dict[str, str]:
        node_class = launch_config.node_class
        own = cluster_tags(self._cluster, pool=sample.pool, node_class=node_class.name)
        return {**node_class.launch.tags, **own}

    async def _create_fleet(
        self, launch_config: LaunchConfig, sample: DryRunSample, template: str, tags: dict[str, str]
    ) -> None:
        override = {
            "InstanceType": sample.instance_type,
            "SubnetId": launch_config.subnets[0].id,
            "ImageId": sample.ami.id,
        }
        await self._dry_run(
            "CreateFleet",
            Type="instant",
            OnDemandOptions={"AllocationStrategy": "lowest-price"},
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"},
                    "Overrides": [override],
                }
            ],
            TagSpecifications=_tag_specifications(("instance", "volume", "fleet"), tags),
        )

    async def _run_instances(
        self,
        launch_config: LaunchConfig,
        sample: DryRunSample,
        template: str,
        data: dict[str, Any],
        tags: dict[str, str],
    ) -> None:
        """Try one subnet after the other until one is accepted."""
        last_error: AwsError | None = None
        for subnet in launch_config.subnets:
            interfaces = [{**interface, "SubnetId": subnet.id} for interface in data["NetworkInterfaces"]]
            try:
                return await self._dry_run(
                    "RunInstances",
                    MinCount=1,
                    MaxCount=1,
                    InstanceType=sample.instance_type,
                    ImageId=sample.ami.id,
                    LaunchTemplate={"LaunchTemplateName": template, "Version": "$Latest"},
                    NetworkInterfaces=interfaces,
                    TagSpecifications=_tag_specifications(("instance", "volume", "network-interface"), tags),
                )
            except AwsError as error:
                if error.kind in (ErrorKind.THROTTLED, ErrorKind.TRANSIENT, ErrorKind.NO_CREDENTIALS):
                    raise
                last_error = error
        if last_error is not None:
            raise last_error

    async def _dry_run(self, operation: str, **parameters: Any) -> None:
        ec2: Any = self._aws.ec2()
        method = {"CreateFleet": ec2.create_fleet, "RunInstances": ec2.run_instances}[operation]
        try:
            await self._aws.call(operation, lambda: method(DryRun=True, **parameters))
        except AwsError as error:
            # Missing capacity is not an error of the node class.
            if error.kind not in (ErrorKind.DRY_RUN_SUCCEEDED, ErrorKind.INSUFFICIENT_CAPACITY):
                raise


def _classify(error: AwsError, launch_config: LaunchConfig) -> Failure:
    """Return reason and message; raise errors that say nothing about the node class."""
    if error.kind in (ErrorKind.THROTTLED, ErrorKind.TRANSIENT):
        raise error
    if error.kind is ErrorKind.ACCESS_DENIED:
        return _AUTH_REASONS.get(error.operation, f"{error.operation}AuthCheckFailed"), str(error)
    if error.code == _TAG_POLICY_VIOLATION:
        return "TagValidationFailed", f"{error}; change spec.tags to comply with the tag policy"
    if _INVALID_PROFILE in str(error):
        if launch_config.node_class.launch.role:
            # Just created: IAM is eventually consistent, EC2 sees it some seconds later.
            raise AwsError(error.operation, "Unavailable", "EC2 does not see the new profile yet")
        return "InstanceProfileNotFound", f"{error}; correct spec.instanceProfile, or create it"
    return (_unclassified(error) if error.reason == "LaunchFailed" else error.reason), str(error)


def _unclassified(error: AwsError) -> str:
    return f"{error.operation}Failed"


def _may_depend_on_type(error: AwsError, failure: Failure) -> bool:
    """Return True if another instance type may be accepted.

    EC2 has no error code for it: it reports parameters that the type does not support
    as it reports wrong ones. Permissions and known reasons do not depend on the type.
    """
    reason, _ = failure
    return error.kind is ErrorKind.INVALID_REQUEST and reason == _unclassified(error)


def _validate_tags(launch_config: LaunchConfig, tags: dict[str, str]) -> Failure | None:
    excess = count_excess_tags(tags)
    if not excess:
        return None
    count = len(launch_config.node_class.launch.tags)
    return (
        "TagValidationFailed",
        f"spec.tags has {count} tags; EC2 allows 50 on an instance, and the other tags of a node need"
        f" {50 - count + excess} of them; remove {excess} from spec.tags",
    )


def _validate_user_data(launch_config: LaunchConfig, context: UserDataContext) -> Failure | None:
    try:
        size = len(launch_config.user_data(context))
    except NodeClassNotReadyError as error:
        return "UserDataInvalid", str(error)
    if size > MAX_USER_DATA_BYTES:
        return (
            "UserDataSizeLimitExceeded",
            f"user data would have {size} bytes, and the limit of EC2 is {MAX_USER_DATA_BYTES};"
            " shorten spec.userData",
        )
    return None


def _fingerprint(launch_config: LaunchConfig) -> Hashable:
    """Return the inputs of a result; a user can invalidate it by an annotation."""
    node_class = launch_config.node_class
    annotations = {
        key: value
        for key, value in node_class.annotations.items()
        if key not in (label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)
    }
    resolved = (
        tuple(ami.id for ami in launch_config.amis),
        tuple(sorted(subnet.id for subnet in launch_config.subnets)),
        launch_config.security_groups,
        launch_config.instance_profile,
    )
    return node_class.generation, FrozenDict(annotations), resolved


def _variant(sample: DryRunSample) -> TemplateVariant:
    return TemplateVariant(
        ami=sample.ami,
        max_pods=sample.max_pods,
        kube_reserved=sample.kube_reserved,
        system_reserved=sample.system_reserved,
    )


def _claim(sample: DryRunSample) -> NodeClaim:
    tenancy = RequirementSpec(_TENANCY, Operator.IN, (sample.tenancy,))
    return NodeClaim(
        name="validation", labels=FrozenDict({label_keys.NODEPOOL: sample.pool}), requirements=(tenancy,)
    )


def _tag_specifications(types: Iterable[str], tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": encode_tags(tags)} for kind in types]


def _allows_dedicated(requirements: Requirements) -> bool:
    tenancy = requirements.get(_TENANCY)
    return tenancy is not None and tenancy.has("dedicated")


def _preference(instance_type: InstanceType) -> tuple[bool, bool, str]:
    """Return the sort key of samples: common types first, then by name."""
    is_accelerated = any(instance_type.capacity.get(name) for name in _ACCELERATORS)
    is_nitro = instance_type.requirements.get_or_exists(_HYPERVISOR).has("nitro")
    return is_accelerated, not is_nitro, instance_type.name


def _is_allowed(instance_type: InstanceType, requirements: Requirements) -> bool:
    return instance_type.requirements.find_disjoint_key(requirements) is None
