"""Facts of a migration from an API server: read only, older versions where v1 is not served."""

import asyncio

from dovetail.data.bundled import bundled_catalog
from dovetail.doctor.facts import Facts
from dovetail.migration.facts import OLDER, WEBHOOKS
from dovetail.migration.sources import read_cluster
from dovetail.ports.api_resources import NODE_POOLS
from tests.doctor.cluster import NOW, Cluster
from tests.doctor.server import serve


def read(cluster: Cluster) -> tuple[Facts, list[tuple[str, str]]]:
    """Return the facts, and method and path of every request."""

    async def run() -> tuple[Facts, list[tuple[str, str]]]:
        async with serve(cluster) as (server, access):
            facts = await read_cluster(access, now=NOW, catalog=bundled_catalog())
            return facts, server.requests

    return asyncio.run(run())


def test_a_cluster_is_only_read_and_secrets_never() -> None:
    cluster = Cluster("i-0123456789abcdef0")
    cluster.extra_objects |= {kind: [] for kind in WEBHOOKS}

    facts, requests = read(cluster)

    assert {method for method, _ in requests} == {"GET"}
    assert not [path for _, path in requests if "secrets" in path or "configmaps" in path]
    assert not facts.unseen
    assert len(facts.of(NODE_POOLS)) == 1


def test_older_versions_are_listed_only_if_v1_is_not_served() -> None:
    cluster = Cluster("i-0123456789abcdef0")
    provisioner = {"metadata": {"name": "old"}, "spec": {}}
    cluster.extra_objects |= {kind: [] for kind in (*WEBHOOKS, *OLDER)}
    cluster.extra_objects[OLDER[0]] = [{"metadata": {"name": "default"}}]
    cluster.extra_objects[OLDER[3]] = [provisioner]

    facts, _ = read(cluster)

    assert not facts.of(OLDER[0])
    assert facts.of(OLDER[3])
