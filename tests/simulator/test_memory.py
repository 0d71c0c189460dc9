"""Memory of simulated components while pods come and go."""

import gc

from dovetail.codec.fields import BoundedCache
from dovetail.model.kube.pod import PodSpec
from dovetail.simulator.scheduler.equivalence import PodClassifier
from tests.support.simulator.scheduler import pod


def test_scheduler_keeps_no_specs_of_daemonset_pods_of_former_nodes() -> None:
    """The spec of each of these pods names its node, so that no two are equal."""
    classifier = PodClassifier()
    gc.collect()
    before = count_specs()

    for number in range(5000):
        field = {"key": "metadata.name", "operator": "In", "values": [f"node-{number}"]}
        term = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        agent = pod(f"agent-{number}", affinity=affinity)
        agent["metadata"]["namespace"] = "default"
        classified = classifier.classify(agent)
        assert classified.pinned_node == f"node-{number}"

    assert len(classifier.classes) == 1
    assert count_specs() - before < 2500


def test_bounded_cache_keeps_the_latest_value_when_it_is_full() -> None:
    cache = BoundedCache(max_entries=2)

    for number in range(5):
        cache[number] = str(number)
    kept = cache.setdefault(4, "other")
    added = cache.setdefault(5, "5")

    assert (kept, added) == ("4", "5")
    assert len(cache) <= 2


def count_specs() -> int:
    return sum(type(obj) is PodSpec for obj in gc.get_objects())
