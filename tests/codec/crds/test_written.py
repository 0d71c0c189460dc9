"""What controllers write has a place in the schemas; the API server would throw it away else."""

from typing import Any

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.scenario.model import Phase, Until
from dovetail.simulator.scenario_runner import Driver
from dovetail.simulator.workqueue import follow
from tests.codec.crds.checking import problems
from tests.codec.crds.walking import schema_of
from tests.support.boxes import a_box, a_story, scaled

SCHEMAS = {one.kind: schema_of(one) for one in DEFINITIONS}


def test_a_life_of_nodes_leaves_nothing_that_would_be_thrown_away() -> None:
    up = Phase(name="up", actions=(scaled(3),), until=Until(running=3))
    down = Phase(name="down", actions=(scaled(0),), until=Until(running=0, nodes=1))
    story = a_story(up, down)
    box = a_box(story)
    seen: list[dict[str, Any]] = []
    for kind in (NODE_POOLS, NODE_CLAIMS, EC2_NODE_CLASSES):
        follow(box.api, box.engine, kind, lambda event: seen.append(thaw(event.object)))

    Driver(box, story).run()

    assert {one["kind"] for one in seen} == {"NodePool", "NodeClaim", "EC2NodeClass"}
    assert {bad for one in seen for bad in problems(one, SCHEMAS[one["kind"]])} == set()
