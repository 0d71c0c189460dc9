"""Which machine a rehearsal asks for: 63 of the AWS checklist."""

from typing import Any

from dovetail.aws.launchtemplate.launch_config_builder import launchable_of
from dovetail.aws.nodeclass.dry_run import Sample, sample_of
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from tests.aws.nodeclass.classes import STATUS, resolved_class
from tests.core.instancetypes.shop import bought
from tests.support.moto_nodeclass import CLUSTER

TENANCY = "karpenter.k8s.aws/instance-tenancy"
PLAIN, ARM, GPU = bought("m5.xlarge"), bought("m6g.large"), bought("g4dn.xlarge")


def a_pool(name: str = "default", **wanted: tuple[str, ...]) -> NodePool:
    keys = {"arch": label_keys.ARCH, "tenancy": TENANCY, "type": label_keys.INSTANCE_TYPE}
    specs = (RequirementSpec(keys[key], Operator.IN, values) for key, values in wanted.items())
    return NodePool(name=name, template=NodeTemplate(requirements=tuple(specs)))


def image(ami_id: str, arch: str) -> dict[str, Any]:
    wanted = {"key": label_keys.ARCH, "operator": "In", "values": [arch]}
    return {"id": ami_id, "name": ami_id, "requirements": [wanted]}


def sample(*types: InstanceType, pools: tuple[NodePool, ...], family: str = "AL2023") -> Sample:
    images = [image("ami-arm", "arm64"), image("ami-amd", "amd64")]
    node_class = resolved_class(family, status={**STATUS, "amis": images})
    return sample_of(launchable_of(node_class, CLUSTER, "eu-west-1"), pools, types)


def test_a_plain_type_is_preferred_to_one_with_accelerators() -> None:
    assert sample(GPU, PLAIN, pools=(a_pool(),)).instance_type == "m5.xlarge"
    assert sample(GPU, pools=(a_pool(),)).instance_type == "g4dn.xlarge"


def test_the_type_is_one_that_a_pool_of_the_class_would_take_with_its_image() -> None:
    chosen = sample(PLAIN, ARM, pools=(a_pool("arm", arch=("arm64",)),))

    assert (chosen.instance_type, chosen.image.id, chosen.pool) == ("m6g.large", "ami-arm", "arm")


def test_where_no_type_is_known_a_usual_one_of_the_first_image_will_do() -> None:
    chosen = sample(pools=(a_pool(),))

    assert (chosen.instance_type, chosen.image.id) == ("m6g.large", "ami-arm")


def test_windows_takes_a_usual_type_always() -> None:
    node_class = resolved_class("Windows2022", status={**STATUS, "amis": [image("ami-w", "amd64")]})
    launchable = launchable_of(node_class, CLUSTER, "eu-west-1")

    assert sample_of(launchable, (a_pool(),), (PLAIN,)).instance_type == "m5.large"


def test_machines_of_ones_own_are_asked_for_when_a_pool_allows_them() -> None:
    mixed = a_pool(tenancy=("default", "dedicated"))

    assert sample(PLAIN, pools=(mixed,)).tenancy == "dedicated"
    assert sample(PLAIN, pools=(a_pool(),)).tenancy == "default"
