"""Comparison of live Kubernetes objects with desired ones."""

from typing import Any

import pytest

from dovetail.eks.resources.kubernetes.objects import project


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"list": [{"name": "x"}]}, {"list": [{"name": "x", "pullPolicy": "Always"}]}),
        ({"cpu": "1000m"}, {"cpu": "1"}),
        ({"memory": "1024Mi"}, {"memory": "1Gi"}),
        ({"tags": {}}, {}),
        ({"budgets": []}, {"budgets": None}),
    ],
)
def test_server_defaults_and_normalized_values_are_not_a_difference(desired: Any, live: Any) -> None:
    assert project(desired, live) == desired


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {}),
        ({"list": ["x"]}, {"list": ["x", "y"]}),
        ({"cpu": "1"}, {"cpu": "2"}),
        ({"name": "x"}, {"name": "y"}),
    ],
)
def test_different_value_is_a_difference(desired: Any, live: Any) -> None:
    assert project(desired, live) != desired
