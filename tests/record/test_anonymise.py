"""Anonymised objects: no name of the user is left, and what matched still matches."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.errors import DovetailError
from dovetail.host.randomness import SystemRandomSource
from dovetail.model.labels import NORMALIZED_LABELS, WELL_KNOWN
from dovetail.ports import api_resources as kinds
from dovetail.record.anonymise import KeyedNames, open_names
from dovetail.record.demand import Demand
from dovetail.trace.model import Header
from tests.record.objects import START, pod


def anonymised(*objects: tuple[Any, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return recorded objects under other names, in the order in which they were given."""
    events: list[Any] = []
    demand = Demand(events.append, now=lambda: START, rename=KeyedNames(b"k" * 40).rename)
    kept = []
    for resource, obj in objects:
        demand.apply(resource, obj)
        events.clear()
        demand.begin(START)
        kept.append(next(event.object for event in reversed(events) if event.object["kind"] == resource.kind))
    return kept


def test_annotations_of_controllers_name_no_pods_and_no_cluster() -> None:
    annotations = {
        "dovetail.sh/assigned-pods": "batch/checkout-1/uid-1,batch/checkout-2/uid-2",
        "karpenter.k8s.aws/instance-profile-name": "prod_123",
        "karpenter.sh/nodepool-hash-version": "v4",
        "karpenter.sh/do-not-disrupt": "30m",
    }
    claim = {"metadata": {"name": "default-x7k2p", "annotations": annotations}, "spec": {}}
    node_class = {"metadata": {"name": "default"}, "spec": {}, "status": {"instanceProfile": "prod_123"}}

    of_pod, of_claim, of_class = anonymised(
        (kinds.PODS, pod("checkout-1")), (kinds.NODE_CLAIMS, claim), (kinds.EC2_NODE_CLASSES, node_class)
    )

    changed = of_claim["metadata"]["annotations"]
    first, _ = changed["dovetail.sh/assigned-pods"].split(",")
    assert first == f"{of_pod['metadata']['namespace']}/{of_pod['metadata']['name']}/uid-1"
    assert changed["karpenter.k8s.aws/instance-profile-name"] == of_class["status"]["instanceProfile"]
    assert changed["karpenter.sh/nodepool-hash-version"] == "v4"
    assert changed["karpenter.sh/do-not-disrupt"] == "30m"
    text = msgspec.json.encode([of_pod, of_claim, of_class]).decode()
    assert not [word for word in ("batch/", "checkout", "prod") if word in text.replace("uid-checkout", "")]


def test_keys_of_labels_and_taints_do_not_name_the_company_and_still_match() -> None:
    key = "scheduling.example.com/dedicated"
    template = {
        "metadata": {"labels": {key: "batch"}},
        "spec": {"taints": [{"key": key, "value": "batch", "effect": "NoSchedule"}]},
    }
    pool = {"metadata": {"name": "batch"}, "spec": {"template": template}}
    spec = {
        "containers": [{"name": "main"}],
        "nodeSelector": {key: "batch", "kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": key, "value": "batch"}],
        "topologySpreadConstraints": [
            {"topologyKey": key, "matchLabelKeys": [key], "whenUnsatisfiable": "DoNotSchedule"}
        ],
    }

    of_pool, of_pod = anonymised((kinds.NODE_POOLS, pool), (kinds.PODS, {**pod("a"), "spec": spec}))

    renamed = of_pool["spec"]["template"]
    ((changed, value),) = renamed["metadata"]["labels"].items()
    assert "example" not in msgspec.json.encode([of_pool, of_pod]).decode()
    assert renamed["spec"]["taints"] == [{"key": changed, "value": value, "effect": "NoSchedule"}]
    assert of_pod["spec"]["nodeSelector"] == {changed: value, "kubernetes.io/arch": "arm64"}
    assert of_pod["spec"]["tolerations"] == [{"key": changed, "value": value}]
    spread = of_pod["spec"]["topologySpreadConstraints"][0]
    assert (spread["topologyKey"], spread["matchLabelKeys"]) == (changed, [changed])


def test_a_csi_node_and_a_pod_of_a_daemonset_have_the_new_name_of_their_node() -> None:
    name = "ip-10-0-0-7.ec2.internal"
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [fields]}}
    spec = {"containers": [{"name": "main"}], "affinity": {"nodeAffinity": required}}
    drivers = [{"name": "ebs.csi.aws.com", "nodeID": "i-0123456789abcdef0", "allocatable": {"count": 25}}]

    csi_node, of_pod, node = anonymised(
        (kinds.CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": drivers}}),
        (kinds.PODS, {**pod("a"), "spec": spec}),
        (kinds.NODES, {"metadata": {"name": name}, "spec": {}, "status": {}}),
    )

    renamed = node["metadata"]["name"]
    assert csi_node["metadata"]["name"] == renamed
    assert csi_node["spec"]["drivers"] == [{"name": "ebs.csi.aws.com", "allocatable": {"count": 25}}]
    terms = of_pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [renamed]


def test_keys_that_kubernetes_and_aws_define_stay_and_domains_that_end_like_theirs_do_not() -> None:
    names = KeyedNames(b"k" * 40)

    for key in (*WELL_KNOWN, *NORMALIZED_LABELS, "nvidia.com/gpu", "training.kubeflow.org/job-name"):
        assert names.label_key(key) == key
    for key in ("acme-array.io/team", "mykubernetes.io/team"):
        assert names.label_key(key) != key


class Source:
    """A recorded trace, and what a recorder finds that is to continue it."""

    def __init__(self, folder: Path, *, anonymise: bool) -> None:
        self.path = folder / "t.zst"
        self.key = folder / "t.zst.key"
        names = open_names(self.path, None, anonymise=anonymise, random=SystemRandomSource())
        self.fingerprint = "" if names is None else names.fingerprint

    def open(self, *, anonymise: bool) -> KeyedNames | None:
        header = Header(written_by="dovetail record 0.1.0", start=START, anonymised=self.fingerprint)
        return open_names(self.path, header, anonymise=anonymise, random=SystemRandomSource())


def test_an_anonymised_trace_is_continued_with_its_key_only(tmp_path: Path) -> None:
    source = Source(tmp_path, anonymise=True)

    continued = source.open(anonymise=True)

    assert continued is not None
    assert continued.fingerprint == source.fingerprint
    assert source.key.stat().st_mode & 0o777 == 0o600
    assert source.key.read_text().strip() not in source.fingerprint


def test_real_names_never_get_into_an_anonymised_trace_whose_key_was_left_behind(tmp_path: Path) -> None:
    source = Source(tmp_path, anonymise=True)
    source.key.unlink()

    with pytest.raises(DovetailError, match=r"t\.zst was recorded with --anonymise; add it, or name another"):
        source.open(anonymise=False)
    with pytest.raises(DovetailError, match=r"its key, .*t\.zst\.key, is missing; copy the key there"):
        source.open(anonymise=True)

    assert not source.key.exists()


def test_a_trace_with_real_names_is_not_continued_with_others(tmp_path: Path) -> None:
    source = Source(tmp_path, anonymise=False)

    with pytest.raises(DovetailError, match=r"t\.zst was recorded without --anonymise; leave it out"):
        source.open(anonymise=True)

    assert source.open(anonymise=False) is None


def test_an_anonymised_trace_is_not_continued_with_another_key(tmp_path: Path) -> None:
    source = Source(tmp_path, anonymise=True)
    source.key.write_text("k" * 40 + "\n")

    with pytest.raises(DovetailError, match=r"t\.zst\.key is not the key that .*t\.zst was recorded with"):
        source.open(anonymise=True)


@pytest.mark.parametrize("content", [bytes(range(128, 178)), b"short\n"])
def test_a_file_that_is_no_key_is_an_error_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.zst.key"
    path.write_bytes(content)

    with pytest.raises(DovetailError, match=r"t\.zst\.key is not a key of --anonymise"):
        open_names(tmp_path / "t.zst", None, anonymise=True, random=SystemRandomSource())

    assert path.read_bytes() == content


def test_a_key_that_was_created_but_not_written_is_written_by_the_next_recorder(tmp_path: Path) -> None:
    (tmp_path / "t.zst.key").touch()
    names = [
        open_names(tmp_path / "t.zst", None, anonymise=True, random=SystemRandomSource()) for _ in range(2)
    ]

    assert len({each.fingerprint for each in names if each is not None}) == 1
    assert None not in names
