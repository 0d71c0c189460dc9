"""Sample of the dry run: 63 of the AWS checklist."""

from typing import Any

from dovetail.aws.launchtemplate.launch_config_builder import build_launch_config
from dovetail.aws.nodeclass.dry_run import DryRunSample, select_samples
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from tests.aws.nodeclass.classes import STATUS, resolved_class
from tests.core.instancetypes.builders import build_type
from tests.support.aws.nodeclass_account import CLUSTER

TENANCY = "karpenter.k8s.aws/instance-tenancy"
PLAIN, ARM, GPU = build_type("m5.xlarge"), build_type("m6g.large"), build_type("g4dn.xlarge")


def a_pool(name: str = "default", **wanted: tuple[str, ...]) -> NodePool:
    keys = {"arch": label_keys.ARCH, "tenancy": TENANCY, "type": label_keys.INSTANCE_TYPE}
    specs = (RequirementSpec(keys[key], Operator.IN, values) for key, values in wanted.items())
    return NodePool(name=name, template=NodeTemplate(requirements=tuple(specs)))


def image(ami_id: str, arch: str) -> dict[str, Any]:
    wanted = {"key": label_keys.ARCH, "operator": "In", "values": [arch]}
    return {"id": ami_id, "name": ami_id, "requirements": [wanted]}


def samples(*types: InstanceType, pools: tuple[NodePool, ...]) -> tuple[DryRunSample, ...]:
    images = [image("ami-arm", "arm64"), image("ami-amd", "amd64")]
    node_class = resolved_class(status={**STATUS, "amis": images})
    return select_samples(build_launch_config(node_class, CLUSTER, "eu-west-1"), pools, types)


def sample(*types: InstanceType, pools: tuple[NodePool, ...]) -> DryRunSample:
    return samples(*types, pools=pools)[0]


def test_a_type_without_accelerators_is_preferred() -> None:
    assert sample(GPU, PLAIN, pools=(a_pool(),)).instance_type == "m5.xlarge"
    assert sample(GPU, pools=(a_pool(),)).instance_type == "g4dn.xlarge"


def test_types_on_the_nitro_hypervisor_are_preferred() -> None:
    xen = build_type("c4.large")

    assert sample(xen, PLAIN, pools=(a_pool(),)).instance_type == "m5.xlarge"
    assert sample(xen, GPU, pools=(a_pool(),)).instance_type == "c4.large"


def test_samples_are_of_different_families_and_at_most_three() -> None:
    names = ("c5.large", "c5.xlarge", "m5.large", "r5.large", "t3.large")

    chosen = samples(*map(build_type, names), pools=(a_pool(),))

    assert [entry.instance_type for entry in chosen] == ["c5.large", "m5.large", "r5.large"]


def test_the_sample_is_a_type_that_a_pool_allows_with_its_ami() -> None:
    chosen = sample(PLAIN, ARM, pools=(a_pool("arm", arch=("arm64",)),))

    assert (chosen.instance_type, chosen.ami.id, chosen.pool) == ("m6g.large", "ami-arm", "arm")


def test_without_a_type_the_default_of_the_first_ami_is_used() -> None:
    chosen = sample(pools=(a_pool(),))

    assert (chosen.instance_type, chosen.ami.id) == ("m6g.large", "ami-arm")


def test_windows_always_uses_the_default_type() -> None:
    node_class = resolved_class("Windows2022", status={**STATUS, "amis": [image("ami-w", "amd64")]})
    launchable = build_launch_config(node_class, CLUSTER, "eu-west-1")

    [only] = select_samples(launchable, (a_pool(),), (PLAIN,))

    assert only.instance_type == "m5.large"


def test_dedicated_tenancy_is_requested_if_a_pool_allows_it() -> None:
    mixed = a_pool(tenancy=("default", "dedicated"))

    assert sample(PLAIN, pools=(mixed,)).tenancy == "dedicated"
    assert sample(PLAIN, pools=(a_pool(),)).tenancy == "default"
