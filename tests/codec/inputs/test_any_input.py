"""Any file gives inputs or validation errors, never another exception."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.codec.rewrite.round_trip import read_documents
from dovetail.errors import InvalidInputError, ValidationError

EXAMPLES = Path(__file__).parents[3] / "examples"
GOOD: list[dict[str, Any]] = [
    document
    for file in sorted((EXAMPLES / "manifests").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
]
LIVE: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {"providerID": "aws:///a/i-1", "taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "ownerReferences": [{"kind": "ReplicaSet", "name": "x"}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"hostPort": 1}]}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    },
    {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "c1"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        "status": {"providerID": "aws:///a/i-2", "conditions": [{"type": "Launched"}]},
    },
    {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {"provider": {"subnetSelector": {"a": "b"}}, "limits": {"resources": {"cpu": 1}}},
    },
    {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "old"},
        "spec": {"subnetSelector": {"aws-ids": "subnet-1"}, "amiSelector": {"aws::name": "x"}},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}],
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "a__b"}},
        "spec": {"csi": {"driver": "ebs.csi.aws.com"}},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 25}}]},
    },
]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["-1", "1e9999", "100MB", "Never", "spot", "In", "karpenter.sh/x", "a/b/c"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "name", "spec", "cpu", ""]), inner, max_size=3)
    ),
    max_leaves=6,
)


def field_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    paths = [path]
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            paths.extend(field_paths(inner, (*path, key)))
    return paths


def with_junk(document: dict[str, Any], path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    changed = copy.deepcopy(document)
    spot: Any = changed
    for step in path[:-1]:
        spot = spot[step]
    spot[path[-1]] = junk
    return changed


def read_errors(reading: Callable[[], object]) -> Sequence[ValidationError]:
    """Return the validation errors; any other exception fails the test."""
    try:
        reading()
    except InvalidInputError as error:
        return error.errors
    return ()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_in_any_field_is_read_or_rejected_with_file_and_line(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(GOOD + LIVE))
    path = data.draw(st.sampled_from(field_paths(document)))
    text = msgspec.json.encode(with_junk(document, path, data.draw(JUNK)))
    live = data.draw(st.booleans())

    errors = read_errors(lambda: read_inputs([] if live else [("f", text)], [("f", text)] if live else []))

    assert all(error.file == "f" and error.message for error in errors)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    for name in ("f.yaml", "f.json"):
        errors = read_errors(lambda file=name: read_inputs([(file, data)]))

        assert all(error.file == name for error in errors)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}[]:,-&*!|>'\"#%@ \n\tabc012~<", max_size=120))
def test_any_mix_of_yaml_tokens_is_read_or_rejected(text: str) -> None:
    errors = read_errors(lambda: read_documents([("soup.yaml", text.encode())]))

    assert all(error.file == "soup.yaml" for error in errors)


@pytest.mark.parametrize("document", GOOD + LIVE, ids=lambda document: document["kind"])
def test_sample_objects_are_valid_before_they_are_changed(document: dict[str, Any]) -> None:
    text = msgspec.json.encode(document)

    if document["apiVersion"].startswith("karpenter") and "old" in str(document["metadata"]):
        return
    read_inputs([], [("good.json", text)])
