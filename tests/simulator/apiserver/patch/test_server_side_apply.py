"""Server-side apply of what was written anonymously, which only a simulation allows."""

import pytest

from dovetail.ports.api_resources import CONFIG_MAPS
from dovetail.ports.kube_errors import Conflict
from tests.support.cluster import Cluster, a_config_map


def test_what_was_written_before_the_first_apply_has_an_owner_too() -> None:
    cluster = Cluster()
    cluster.create(CONFIG_MAPS, a_config_map("a", x="1"))

    with pytest.raises(Conflict, match="before-first-apply"):
        cluster.apply(CONFIG_MAPS, a_config_map("a", x="2"), manager="me")

    shared = cluster.apply(CONFIG_MAPS, a_config_map("a", x="1"), manager="me")
    owners = {one["manager"] for one in shared["metadata"]["managedFields"]}
    assert owners == {"before-first-apply", "me"}
