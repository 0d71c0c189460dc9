"""The simulated API server accepts and rejects what a real one with these CRDs does."""

import pytest

from dovetail.ports.api_resources import find_resource
from dovetail.ports.kube_errors import Invalid
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from tests.codec.crds import accepted, rejected
from tests.codec.crds.objects import Object, Rejected
from tests.codec.crds.schema_defaults import with_defaults
from tests.codec.crds.test_controller_writes import SCHEMAS
from tests.support.simulator.api_server import Cluster


def create(cluster: Cluster, obj: Object) -> Object:
    resource = find_resource(obj["apiVersion"], obj["kind"])
    assert resource is not None
    namespace = "default" if resource.namespaced else ""
    return thaw(cluster.create(resource, obj, namespace=namespace))


def replace(cluster: Cluster, before: Object, after: Object) -> None:
    resource = find_resource(after["apiVersion"], after["kind"])
    assert resource is not None
    cluster.update(resource, {**after, "metadata": create(cluster, before)["metadata"]})


@pytest.mark.parametrize("case", rejected.REJECTED, ids=[case.description for case in rejected.REJECTED])
def test_invalid_objects_are_rejected(case: Rejected) -> None:
    with pytest.raises(Invalid):
        create(Cluster(), case.object)


@pytest.mark.parametrize(
    "obj", [obj for _, obj in accepted.ACCEPTED], ids=[what for what, _ in accepted.ACCEPTED]
)
def test_valid_objects_are_accepted_and_defaulted(obj: Object) -> None:
    created = create(Cluster(), obj)

    assert created["spec"] == with_defaults(obj["spec"], SCHEMAS[obj["kind"]]["properties"]["spec"])


@pytest.mark.parametrize(
    "change", rejected.REJECTED_CHANGES, ids=[change.description for change in rejected.REJECTED_CHANGES]
)
def test_immutable_fields_cannot_be_changed(change: rejected.RejectedChange) -> None:
    with pytest.raises(Invalid, match=change.message):
        replace(Cluster(), change.before, change.after)


@pytest.mark.parametrize(
    "change", accepted.ALLOWED_CHANGES, ids=[change.description for change in accepted.ALLOWED_CHANGES]
)
def test_other_fields_can_be_changed(change: accepted.Change) -> None:
    replace(Cluster(), change.before, change.after)
