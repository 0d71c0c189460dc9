"""NodePool validation: NP9 of the lifecycle checklist."""

from typing import Any

import pytest

from dovetail.controllers.nodepool import validation
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.api_resources import NODE_POOLS
from tests.support.controllers.environment import ControllerEnvironment, condition
from tests.support.kube import manifests


def validate(*requirements: RequirementSpec, **template: Any) -> tuple[str, str]:
    env = ControllerEnvironment().run(validation.controller)
    env.add(NODE_POOLS, manifests.pool(template=NodeTemplate(requirements=requirements, **template)))
    return condition(env.pool().conditions, "ValidationSucceeded")


def capacity_types(*values: str) -> RequirementSpec:
    return RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, values)


@pytest.mark.parametrize("values", [("spot",), ("on-demand", "spot"), ("spot", "cheap")])
def test_one_known_capacity_type_is_valid(values: tuple[str, ...]) -> None:
    assert validate(capacity_types(*values)) == ("True", "ValidationSucceeded")


def test_nodepool_that_passed_admission_can_be_invalid() -> None:
    two_of = RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, ("spot", "cheap"), 2)

    assert validate(two_of) == ("False", "NodePoolValidationFailed")
