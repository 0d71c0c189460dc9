"""The simulated API server takes and refuses what a real one with our definitions does."""

import pytest

from dovetail.ports.api_resources import resource_of_kind
from dovetail.ports.kube_errors import Invalid
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from tests.codec.crds import accepted, refused
from tests.codec.crds.filling import filled
from tests.codec.crds.objects import Object, Refused
from tests.codec.crds.test_written import SCHEMAS
from tests.support.cluster import Cluster


def create(cluster: Cluster, obj: Object) -> Object:
    resource = resource_of_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    namespace = "default" if resource.namespaced else ""
    return thaw(cluster.create(resource, obj, namespace=namespace))


def replace(cluster: Cluster, before: Object, after: Object) -> None:
    resource = resource_of_kind(after["apiVersion"], after["kind"])
    assert resource is not None
    cluster.update(resource, {**after, "metadata": create(cluster, before)["metadata"]})


@pytest.mark.parametrize("one", refused.REFUSED, ids=[one.what for one in refused.REFUSED])
def test_what_makes_no_sense_is_refused(one: Refused) -> None:
    with pytest.raises(Invalid):
        create(Cluster(), one.object)


@pytest.mark.parametrize(
    "obj", [obj for _, obj in accepted.ACCEPTED], ids=[what for what, _ in accepted.ACCEPTED]
)
def test_what_makes_sense_is_taken_and_filled_in(obj: Object) -> None:
    made = create(Cluster(), obj)

    assert made["spec"] == filled(obj["spec"], SCHEMAS[obj["kind"]]["properties"]["spec"])


@pytest.mark.parametrize(
    "one", refused.FORBIDDEN_CHANGES, ids=[one.what for one in refused.FORBIDDEN_CHANGES]
)
def test_what_must_stay_cannot_be_changed(one: refused.Change) -> None:
    with pytest.raises(Invalid, match=one.told):
        replace(Cluster(), one.before, one.after)


@pytest.mark.parametrize(
    "one", accepted.ALLOWED_CHANGES, ids=[one.what for one in accepted.ALLOWED_CHANGES]
)
def test_all_else_can_be_changed(one: accepted.Change) -> None:
    replace(Cluster(), one.before, one.after)
