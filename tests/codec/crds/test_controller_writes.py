"""Every field that controllers write is in a schema; others would be pruned."""

from typing import Any

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.scenario.model import Phase, Until
from dovetail.simulator.scenario_runner import ScenarioRunner
from dovetail.simulator.workqueue import start_watch
from tests.codec.crds.schema_fields import schema_of
from tests.codec.crds.schema_violations import find_violations
from tests.support.simulator.clusters import build_cluster, build_scenario, scaled

SCHEMAS = {definition.kind: schema_of(definition) for definition in DEFINITIONS}


def test_fields_written_during_a_node_lifecycle_are_not_pruned() -> None:
    up = Phase(name="up", actions=(scaled(3),), until=Until(running=3))
    down = Phase(name="down", actions=(scaled(0),), until=Until(running=0, nodes=1))
    story = build_scenario(up, down)
    box = build_cluster(story)
    objects: list[dict[str, Any]] = []
    for kind in (NODE_POOLS, NODE_CLAIMS, EC2_NODE_CLASSES):
        start_watch(box.api, box.clock, kind, lambda event: objects.append(thaw(event.object)))

    ScenarioRunner(box, story).run()

    assert {obj["kind"] for obj in objects} == {"NodePool", "NodeClaim", "EC2NodeClass"}
    assert {bad for obj in objects for bad in find_violations(obj, SCHEMAS[obj["kind"]])} == set()
