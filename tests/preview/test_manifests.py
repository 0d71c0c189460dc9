"""Changed manifests: what is refused, with file and line, and what is read."""

import pytest

from dovetail.errors import InvalidInputError
from dovetail.preview.change import Change, apply_change
from dovetail.preview.manifests import ChangedManifests
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import build_cluster

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - key: karpenter.sh/capacity-type
        operator: In
        values: [spot]
"""
APP = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: app:1
"""

IMMUTABLE = APP.replace("app: web}", "app: other}")
"""Its selector differs from that of the Deployment in the cluster."""


@pytest.fixture
def cluster() -> SimulatedCluster:
    return build_cluster()


def refusals(cluster: SimulatedCluster, *texts: str) -> list[str]:
    """Apply files a.yaml, b.yaml … and return all errors."""
    files = [(f"{chr(97 + number)}.yaml", text.encode()) for number, text in enumerate(texts)]
    try:
        apply_change(cluster, Change(manifests=ChangedManifests(files)))
    except InvalidInputError as error:
        return [str(problem) for problem in error.errors]
    return []


def test_an_unknown_field_is_refused_with_its_line_and_the_nearest_field(cluster: SimulatedCluster) -> None:
    assert refusals(cluster, POOL + "  limts: {cpu: 10}\n") == [
        "a.yaml:13 spec.limts: no such field; did you mean 'limits'?"
    ]


def test_a_field_of_a_wrong_type_is_refused_with_its_line(cluster: SimulatedCluster) -> None:
    assert refusals(cluster, APP.replace("replicas: 3", "replicas: many")) == [
        "a.yaml:5 spec.replicas: must be a whole number, not 'many'"
    ]


def test_an_unknown_field_of_a_kind_without_decoder_is_refused(cluster: SimulatedCluster) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndatum:\n  a: b\n"

    assert refusals(cluster, text) == ["a.yaml:6 datum: unknown field"]


def test_what_only_the_api_server_knows_is_refused_with_its_line(cluster: SimulatedCluster) -> None:
    (problem,) = refusals(cluster, IMMUTABLE)

    assert problem.startswith("a.yaml:6 spec.selector: ")
    assert "immutable" in problem


def test_the_errors_of_all_files_are_reported_at_once(cluster: SimulatedCluster) -> None:
    misspelt = POOL + "  limts: {cpu: 10}\n"

    problems = refusals(cluster, misspelt, IMMUTABLE, "kind: Pod\n")

    assert [problem.partition(" ")[0] for problem in problems] == ["a.yaml:13", "b.yaml:6", "c.yaml:1"]


def test_an_object_in_two_files_is_refused(cluster: SimulatedCluster) -> None:
    assert refusals(cluster, POOL, POOL) == [
        "b.yaml:4 metadata.name: NodePool default is defined twice; first in a.yaml"
    ]


def test_an_object_without_a_name_is_refused(cluster: SimulatedCluster) -> None:
    (problem,) = refusals(cluster, POOL.replace("  name: default\n", "  labels: {a: b}\n"))

    assert problem.startswith("a.yaml:")
    assert "name" in problem


def test_kinds_without_effect_on_nodes_are_named(cluster: SimulatedCluster) -> None:
    text = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny}\nspec: {}\n"

    applied = apply_change(cluster, Change(manifests=ChangedManifests([("a.yaml", text.encode())])))

    assert applied.changes == ()
    assert applied.unchanged == ("NetworkPolicy deny (has no effect on nodes)",)


def test_files_from_kubectl_get_can_be_used_as_they_are(cluster: SimulatedCluster) -> None:
    text = POOL.replace(
        "  name: default\n", '  name: default\n  uid: "1"\n  resourceVersion: "5"\n  generation: 3\n'
    )

    assert refusals(cluster, text + "status: {}\n") == []
