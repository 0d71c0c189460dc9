"""Server-side apply of objects without managedFields, which a real server always has."""

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS
from dovetail.ports.kube_errors import Conflict
from tests.support.simulator.api_server import Cluster, a_config_map


def test_fields_written_before_the_first_apply_have_an_owner() -> None:
    cluster = Cluster()
    cluster.create(CONFIG_MAPS, a_config_map("a", x="1"))

    with pytest.raises(Conflict, match="before-first-apply"):
        cluster.apply(CONFIG_MAPS, a_config_map("a", x="2"), manager="me")

    shared = cluster.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")
    owners = {entry["manager"] for entry in shared["metadata"]["managedFields"]}
    assert owners == {"before-first-apply", "me"}
