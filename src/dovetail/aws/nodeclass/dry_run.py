"""Whether launching from a class is allowed, found out by asking EC2 to do it as a dry run."""

from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.claim_tags import cluster_tags
from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.launchtemplate.launch_config import Boot, Image, Launchable
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates, Template
from dovetail.aws.launchtemplate.template_data import Variant, as_list, boot_of, template_data
from dovetail.aws.session import Aws
from dovetail.aws.ttl_cache import Remembered
from dovetail.aws.userdata.registry import LONGEST
from dovetail.core.instancetypes.ami_families import family_named
from dovetail.core.instancetypes.capacity import EFA, NEURON
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Operator, Requirements, RequirementSpec
from dovetail.model.kube.resources import PODS
from dovetail.ports.cloudprovider import NodeClassNotReady
from dovetail.ports.event_loop import Clock

Problem = tuple[str, str]
"""Reason and message."""

_HOLDS: Final = timedelta(minutes=30)
_TENANCY: Final = f"{label_keys.AWS_DOMAIN}/instance-tenancy"
_UNKNOWN_TYPES: Final = {"amd64": "m5.large", "arm64": "m6g.large"}
"""Asked for when no type is known that a NodePool would take."""
_ACCELERATORS: Final = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", NEURON, EFA)
_REFUSALS: Final = {
    "CreateLaunchTemplate": "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleet": "CreateFleetAuthCheckFailed",
    "RunInstances": "RunInstancesAuthCheckFailed",
}
_TAG_POLICY: Final = "TagPolicyViolation"
_NO_PROFILE: Final = "Invalid IAM Instance Profile name"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that is asked for in a rehearsal."""

    instance_type: str
    image: Image
    max_pods: int = 110
    pool: str = "validation"
    tenancy: str = "default"


def sample_of(
    launchable: Launchable, pools: Iterable[NodePool], types: Iterable[InstanceType]
) -> Sample:
    """Choose a type that a pool of the class would take, if possible a plain one."""
    every = sorted(pools, key=lambda pool: pool.name)
    wanted = {pool.name: Requirements.of_specs(pool.template.requirements) for pool in every}
    dedicated = any(_asks_for_dedicated(one) for one in wanted.values())
    tenancy = "dedicated" if dedicated else "default"
    if not family_named(launchable.node_class.ami_family).is_windows:
        for one in sorted(types, key=lambda one: (_is_accelerated(one), one.name)):
            image = next((image for image in launchable.images if image.boots(one)), None)
            pool = next((name for name, asked in wanted.items() if _goes(one, asked)), None)
            if image is not None and pool is not None:
                return Sample(
                    instance_type=one.name,
                    image=image,
                    max_pods=one.capacity.get(PODS, 0),
                    pool=pool,
                    tenancy=tenancy,
                )
    image = launchable.images[0]
    arch = "arm64" if not image.requirements.allowed(label_keys.ARCH).has("amd64") else "amd64"
    first = next(iter(wanted), "validation")
    return Sample(instance_type=_UNKNOWN_TYPES[arch], image=image, pool=first, tenancy=tenancy)


class Rehearsal:
    """Asks for a machine without wanting it; remembers for a while what EC2 said."""

    def __init__(
        self,
        aws: Aws,
        *,
        templates: LaunchTemplates,
        cluster: str,
        clock: Clock,
        pools: Callable[[str], Iterable[NodePool]] = lambda _: (),
        types: Callable[[NodeClass], Iterable[InstanceType]] = lambda _: (),
        disabled: bool = False,
    ) -> None:
        """``pools`` are those of a class, by its name; ``types`` what it could buy."""
        self._aws = aws
        self._templates = templates
        self._cluster = cluster
        self._pools = pools
        self._types = types
        self._disabled = disabled
        self._known: Remembered[Problem | str] = Remembered(clock.now)

    async def problem(self, launchable: Launchable) -> Problem | None:
        """Return what EC2 has against launching from a class; raises ``AwsError`` if unsure."""
        node_class = launchable.node_class
        sample = sample_of(launchable, self._pools(node_class.name), self._types(node_class))
        claim = _claim(sample)
        variant = Variant(image=sample.image, max_pods=sample.max_pods)
        boot = boot_of(variant, claim, label_keys.ON_DEMAND)
        too_long = _user_data_problem(launchable, boot)
        if too_long is not None or self._disabled:
            return too_long
        key = (node_class.uid, _fingerprint(launchable), sample.instance_type, sample.tenancy)
        known = self._known.get(key)
        if known is None:
            known = await self._ask(launchable, sample, variant, claim) or "well"
            if known != "well" and known[0] == "InstanceProfileNotFound":
                return known[0], known[1]  # It may be there in a moment.
            self._known.put(key, known, lasting=_HOLDS)
        return None if isinstance(known, str) else known

    def forget(self, uid: str) -> None:
        """Remember nothing of a class that is gone."""
        self._known.drop_if(lambda key: isinstance(key, tuple) and key[0] == uid)

    async def _ask(
        self, launchable: Launchable, sample: Sample, variant: Variant, claim: NodeClaim
    ) -> Problem | None:
        name = launchable.node_class.name
        tags = {
            **launchable.node_class.launch.tags,
            **cluster_tags(self._cluster, pool=sample.pool, node_class=name),
        }
        data = template_data(
            variant,
            claim=claim,
            capacity_type=label_keys.ON_DEMAND,
            launchable=launchable,
            tags=tags,
        )
        try:
            [template] = await self._templates.ensure([Template(data=data, tags=tags)])
            await self._create_fleet(launchable, sample, template, tags)
            await self._run_instances(launchable, sample, template, data, tags)
        except AwsError as error:
            return _judged(error, launchable)
        return None

    async def _create_fleet(
        self, launchable: Launchable, sample: Sample, template: str, tags: dict[str, str]
    ) -> None:
        override = {
            "InstanceType": sample.instance_type,
            "SubnetId": launchable.subnets[0].id,
            "ImageId": sample.image.id,
        }
        await self._dry(
            "CreateFleet",
            Type="instant",
            OnDemandOptions={"AllocationStrategy": "lowest-price"},
            TargetCapacitySpecification={
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "on-demand",
            },
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateName": template,
                        "Version": "$Latest",
                    },
                    "Overrides": [override],
                }
            ],
            TagSpecifications=_tagging(("instance", "volume", "fleet"), tags),
        )

    async def _run_instances(
        self,
        launchable: Launchable,
        sample: Sample,
        template: str,
        data: dict[str, Any],
        tags: dict[str, str],
    ) -> None:
        """Ask in one subnet after the other, until one will do."""
        refused: AwsError | None = None
        for subnet in launchable.subnets:
            interfaces = [{**one, "SubnetId": subnet.id} for one in data["NetworkInterfaces"]]
            try:
                return await self._dry(
                    "RunInstances",
                    MinCount=1,
                    MaxCount=1,
                    InstanceType=sample.instance_type,
                    ImageId=sample.image.id,
                    LaunchTemplate={"LaunchTemplateName": template, "Version": "$Latest"},
                    NetworkInterfaces=interfaces,
                    TagSpecifications=_tagging(("instance", "volume"), tags),
                )
            except AwsError as error:
                if error.kind in (Kind.THROTTLED, Kind.TRANSIENT, Kind.NO_CREDENTIALS):
                    raise
                refused = error
        if refused is not None:
            raise refused

    async def _dry(self, operation: str, **asked: Any) -> None:
        ec2: Any = self._aws.ec2()
        method = {"CreateFleet": ec2.create_fleet, "RunInstances": ec2.run_instances}[operation]
        try:
            await self._aws.call(operation, lambda: method(DryRun=True, **asked))
        except AwsError as error:
            # That there is no capacity just now is no fault of the class.
            if error.kind not in (Kind.WOULD_SUCCEED, Kind.SCARCE):
                raise


def _judged(error: AwsError, launchable: Launchable) -> Problem:
    """Return what to say of an error; raises those that say nothing about the class."""
    if error.kind in (Kind.THROTTLED, Kind.TRANSIENT):
        raise error
    if error.kind is Kind.REFUSED:
        return _REFUSALS.get(error.operation, f"{error.operation}AuthCheckFailed"), str(error)
    if error.code == _TAG_POLICY:
        return "TagValidationFailed", f"{error}; change spec.tags as the tag policy wants it"
    if _NO_PROFILE in str(error):
        if launchable.node_class.launch.role:
            # Just made: EC2 hears of it some seconds later than IAM.
            raise AwsError(error.operation, "Unavailable", "the instance profile is not there yet")
        return "InstanceProfileNotFound", f"{error}; correct spec.instanceProfile, or create it"
    return (error.reason if error.reason != "LaunchFailed" else f"{error.operation}Failed"), str(
        error
    )


def _user_data_problem(launchable: Launchable, boot: Boot) -> Problem | None:
    try:
        size = len(launchable.user_data(boot))
    except NodeClassNotReady as error:
        return "UserDataInvalid", str(error)
    if size > LONGEST:
        return (
            "UserDataSizeLimitExceeded",
            f"user data would be {size} bytes long, and EC2 takes {LONGEST}; shorten spec.userData",
        )
    return None


def _fingerprint(launchable: Launchable) -> Hashable:
    """Return what a verdict holds for; an annotation of the user's has it asked for anew."""
    one = launchable.node_class
    noted = {key: value for key, value in one.annotations.items() if "ec2nodeclass-hash" not in key}
    subnets = tuple(sorted(subnet.id for subnet in launchable.subnets))
    found = (
        tuple(image.id for image in launchable.images),
        subnets,
        launchable.security_groups,
        launchable.instance_profile,
    )
    return one.generation, FrozenDict(noted), found


def _claim(sample: Sample) -> NodeClaim:
    tenancy = RequirementSpec(_TENANCY, Operator.IN, (sample.tenancy,))
    return NodeClaim(
        name="validation",
        labels=FrozenDict({label_keys.NODEPOOL: sample.pool}),
        requirements=(tenancy,),
    )


def _tagging(kinds: Iterable[str], tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": as_list(tags)} for kind in kinds]


def _asks_for_dedicated(wanted: Requirements) -> bool:
    asked = wanted.get(_TENANCY)
    return asked is not None and asked.has("dedicated")


def _is_accelerated(one: InstanceType) -> bool:
    return any(one.capacity.get(name) for name in _ACCELERATORS)


def _goes(one: InstanceType, wanted: Requirements) -> bool:
    return one.requirements.clash(wanted) is None
