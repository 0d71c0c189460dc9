"""NodePool hash: NP1–NP5 of the lifecycle checklist."""

from typing import Any

from dovetail.controllers.nodepool import hash as nodepool_hash
from dovetail.core.nodepool.hash import HASH_VERSION
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests


def get_hash(obj: Any) -> tuple[str | None, str | None]:
    return (
        obj.annotations.get(label_keys.NODEPOOL_HASH),
        obj.annotations.get(label_keys.NODEPOOL_HASH_VERSION),
    )


def test_changed_template_gets_a_new_hash() -> None:
    env = ControllerEnvironment().run(nodepool_hash.controller)
    env.add(NODE_POOLS, manifests.pool())
    first = get_hash(env.pool())

    env.patch(NODE_POOLS, "default", {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})

    assert first[0] is not None
    assert first[1] == get_hash(env.pool())[1] == HASH_VERSION
    assert get_hash(env.pool())[0] != first[0]


def test_fields_outside_the_template_keep_the_hash() -> None:
    env = ControllerEnvironment().run(nodepool_hash.controller)
    env.add(NODE_POOLS, manifests.pool())
    first = get_hash(env.pool())

    zone = {"key": label_keys.ZONE, "operator": "In", "values": ["a"]}
    env.patch(
        NODE_POOLS,
        "default",
        {
            "spec": {
                "limits": {"cpu": "10"},
                "weight": 5,
                "disruption": {"consolidateAfter": "1h"},
                "template": {"spec": {"requirements": [zone]}},
            }
        },
    )

    assert env.pool().weight == 5
    assert get_hash(env.pool()) == first


def test_nodeclaims_get_a_new_hash_when_the_hash_version_changes() -> None:
    env = ControllerEnvironment()
    old = FrozenDict({label_keys.NODEPOOL_HASH: "1", label_keys.NODEPOOL_HASH_VERSION: "v3"})
    pool = manifests.pool()
    pool["metadata"]["annotations"] = dict(old)
    env.add(NODE_POOLS, pool)
    env.add(NODE_CLAIMS, manifests.claim("fresh", annotations=old))
    stale = old.with_items({label_keys.NODEPOOL_HASH: "2"})
    env.add(NODE_CLAIMS, manifests.claim("drifted", annotations=stale))

    env.run(nodepool_hash.controller)

    assert get_hash(env.claim("fresh")) == get_hash(env.pool())
    assert get_hash(env.claim("drifted")) == ("2", HASH_VERSION)


def test_nodeclaims_keep_their_hash_while_the_hash_version_is_the_same() -> None:
    env = ControllerEnvironment().run(nodepool_hash.controller)
    env.add(NODE_POOLS, manifests.pool())
    annotations = {label_keys.NODEPOOL_HASH: "1", label_keys.NODEPOOL_HASH_VERSION: HASH_VERSION}
    env.add(NODE_CLAIMS, manifests.claim(annotations=FrozenDict(annotations)))

    env.patch(NODE_POOLS, "default", {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})

    assert get_hash(env.claim()) == ("1", HASH_VERSION)


def test_all_nodeclaims_get_the_new_hash_despite_crashes() -> None:
    env = ControllerEnvironment()
    env.add(NODE_POOLS, manifests.pool())
    for name in ("one", "two", "three"):
        env.add(NODE_CLAIMS, manifests.claim(name))
    env.crash_after(2)
    env.run(nodepool_hash.controller)

    env.restart()

    for name in ("one", "two", "three"):
        assert get_hash(env.claim(name)) == get_hash(env.pool())
