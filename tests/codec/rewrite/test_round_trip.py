"""Objects survive a round trip, with known and unknown fields."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.codec.rewrite.round_trip import Document, new_document, read_documents
from dovetail.codec.text.yaml_writer import to_json, to_yaml
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import (
    BlockDevice,
    CapacityReservation,
    EC2NodeClass,
    KubeletConfiguration,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import (
    Budget,
    ConsolidationPolicy,
    Disruption,
    NodeClassRef,
    NodePool,
    NodeTemplate,
)
from dovetail.model.kube.conditions import Condition
from dovetail.model.kube.pod import (
    HostPort,
    NodeInclusionPolicy,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodPhase,
    PodSpec,
    PodVolume,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.taints import Taint, TaintEffect, Toleration
from tests.codec.sources import POOL

WORD = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)
VALUE = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,6}[A-Za-z0-9])?", fullmatch=True)
LABELS = st.dictionaries(WORD, VALUE, max_size=3).map(FrozenDict)
TRICKY = st.sampled_from(["on", "1e3", "0x1F", "null", "~", "a: b", "# no", "ä\n", " x", "012", ""])
ANNOTATIONS = st.dictionaries(WORD, TRICKY | VALUE, max_size=3).map(FrozenDict)
AMOUNT = st.integers(0, 2**50)
POOL_LIMITS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nodes", "nvidia.com/gpu"]), AMOUNT, max_size=4
).map(Resources)
SPAN = st.integers(0, 10**7).map(lambda seconds: timedelta(seconds=seconds))
EFFECT = st.sampled_from(TaintEffect)


def lists(of: st.SearchStrategy[Any], size: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=size).map(tuple)


def requirement(*operators: Operator, least: bool = False) -> st.SearchStrategy[RequirementSpec]:
    def values(operator: Operator) -> st.SearchStrategy[tuple[str, ...]]:
        if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return st.just(())
        if operator in (Operator.IN, Operator.NOT_IN):
            return st.lists(VALUE, min_size=1, max_size=3, unique=True).map(tuple)
        return st.integers(0, 10**9).map(lambda number: (str(number),))

    minimum = st.none() | st.just(1) if least else st.none()
    return st.sampled_from(operators).flatmap(
        lambda operator: st.builds(RequirementSpec, WORD, st.just(operator), values(operator), minimum)
    )


ANY_OPERATOR = requirement(*Operator, least=True)
PLAIN = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
SELECTOR = st.builds(LabelSelector, LABELS, lists(requirement(*PLAIN)))
TAINTS = st.lists(
    st.builds(Taint, WORD, EFFECT, VALUE), max_size=3, unique_by=lambda taint: (taint.key, taint.effect)
).map(tuple)
REFERENCE = st.builds(NodeClassRef, WORD, WORD, WORD)
POOLS = st.builds(
    NodePool,
    name=WORD,
    template=st.builds(
        NodeTemplate,
        labels=LABELS,
        annotations=ANNOTATIONS,
        requirements=lists(ANY_OPERATOR, 4),
        taints=TAINTS,
        node_class=REFERENCE,
        expire_after=st.none() | SPAN,
        termination_grace_period=st.none() | SPAN,
    ),
    disruption=st.builds(
        Disruption,
        st.none() | SPAN,
        st.sampled_from(ConsolidationPolicy),
        st.lists(
            st.builds(Budget, st.sampled_from(["0", "7", "100%", "5%"]))
            | st.builds(
                Budget,
                st.just("1"),
                st.just("0 9 * * 1"),
                st.integers(1, 600).map(lambda minutes: timedelta(minutes=minutes)),
                lists(st.sampled_from(["Empty", "Drifted"])),
            ),
            min_size=1,
            max_size=2,
        ).map(tuple),
    ),
    limits=st.none() | POOL_LIMITS,
    weight=st.integers(0, 100),
    ready=st.booleans(),
)
CLAIMS = st.builds(
    NodeClaim,
    name=WORD,
    uid=WORD,
    labels=LABELS,
    annotations=ANNOTATIONS,
    created=st.none() | st.just(datetime(2026, 1, 31, 12, tzinfo=UTC)),
    requirements=lists(ANY_OPERATOR, 4),
    requests=POOL_LIMITS,
    taints=TAINTS,
    startup_taints=TAINTS,
    node_class=REFERENCE,
    expire_after=st.none() | SPAN,
    provider_id=VALUE,
    node_name=WORD,
    image_id=WORD,
    capacity=POOL_LIMITS,
    allocatable=POOL_LIMITS,
    conditions=st.dictionaries(
        WORD,
        st.builds(
            Condition,
            status=st.sampled_from(["True", "False", "Unknown"]),
            reason=WORD,
            message=VALUE,
            last_transition_time=st.none() | st.just(datetime(2026, 1, 31, 12, tzinfo=UTC)),
            observed_generation=st.integers(0, 9),
        ),
    ).map(FrozenDict),
    last_pod_event=st.none() | st.just(datetime(2026, 1, 31, 13, tzinfo=UTC)),
)
EVICTION = st.sampled_from([{}, {"memory.available": "5%"}]).map(FrozenDict)
RESERVABLE = st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNT).map(Resources)
CLASSES = st.builds(
    EC2NodeClass,
    name=WORD,
    ami_family=st.sampled_from(AmiFamily),
    kubelet=st.builds(
        KubeletConfiguration,
        max_pods=st.none() | st.integers(0, 500),
        pods_per_core=st.none() | st.integers(0, 50),
        kube_reserved=RESERVABLE,
        system_reserved=RESERVABLE,
        eviction_hard=EVICTION,
        eviction_soft=EVICTION,
        eviction_soft_grace=st.sampled_from([{}, {"memory.available": "1m"}]).map(FrozenDict),
        eviction_max_pod_grace=st.none() | st.integers(0, 600),
        cluster_dns=st.sampled_from([(), ("10.0.0.10",), ("10.0.0.10", "fd00::a")]),
        image_gc_high=st.none() | st.integers(0, 100),
        image_gc_low=st.none() | st.integers(0, 100),
        cpu_cfs_quota=st.none() | st.booleans(),
        others=st.sampled_from([{}, {"shutdownGracePeriod": "30s"}]).map(FrozenDict),
    ),
    block_devices=lists(
        st.builds(
            BlockDevice,
            device_name=VALUE,
            volume_bytes=st.none() | AMOUNT,
            root=st.booleans(),
            volume_type=st.sampled_from(["", "gp3", "io2"]),
            encrypted=st.none() | st.booleans(),
            iops=st.none() | st.integers(0, 9),
            throughput=st.none() | st.integers(0, 9),
            kms_key=st.just("") | WORD,
            snapshot=st.just("") | WORD,
            initialization_rate=st.none() | st.integers(100, 300),
            delete_on_termination=st.none() | st.booleans(),
        )
    ),
    raid0=st.booleans(),
    zones=st.none() | st.dictionaries(WORD, WORD).map(lambda z: FrozenDict(dict(sorted(z.items())))),
    capacity_reservations=lists(
        st.builds(
            CapacityReservation,
            id=WORD,
            instance_type=WORD,
            zone=WORD,
            available_count=st.integers(0, 9),
            reservation_type=st.sampled_from(["default", "capacity-block"]),
            interruptible=st.booleans(),
            expiring=st.booleans(),
        )
    ),
    ready=st.booleans(),
)
NODE_TERM = st.builds(NodeSelectorTerm, lists(requirement(*PLAIN, Operator.GT, Operator.LT)))
POD_TERM = st.builds(PodAffinityTerm, WORD, st.none() | SELECTOR, lists(WORD), st.none() | SELECTOR)
WEIGHT = st.integers(1, 100)
SPREADS = st.lists(
    st.builds(
        TopologySpreadConstraint,
        topology_key=WORD,
        max_skew=st.integers(1, 5),
        selector=st.none() | SELECTOR,
        required=st.just(True),
        min_domains=st.none() | st.integers(1, 5),
        match_label_keys=lists(WORD),
        node_affinity_policy=st.sampled_from(NodeInclusionPolicy),
        node_taints_policy=st.sampled_from(NodeInclusionPolicy),
    ),
    max_size=2,
    unique_by=lambda spread: spread.topology_key,
).map(tuple)
POD_REQUESTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"]), st.integers(1 << 20, 1 << 26)
).map(lambda amounts: Resources({**amounts, "pods": 1}))
SPECS = st.builds(
    PodSpec,
    requests=POD_REQUESTS,
    node_selector=LABELS,
    node_terms=lists(NODE_TERM),
    preferred_node_terms=lists(st.builds(PreferredSchedulingTerm, WEIGHT, NODE_TERM)),
    affinity=lists(POD_TERM),
    anti_affinity=lists(POD_TERM),
    preferred_affinity=lists(st.builds(WeightedPodAffinityTerm, WEIGHT, POD_TERM)),
    preferred_anti_affinity=lists(st.builds(WeightedPodAffinityTerm, WEIGHT, POD_TERM)),
    spreads=SPREADS,
    tolerations=lists(
        st.builds(Toleration, WORD, st.just("Equal"), VALUE, st.none() | EFFECT)
        | st.builds(Toleration, st.just(""), st.just("Exists"), st.just(""), st.none() | EFFECT)
    ),
    host_ports=st.lists(
        st.builds(HostPort, st.integers(1, 65535), st.sampled_from(["TCP", "UDP"])), max_size=2, unique=True
    ).map(tuple),
    volumes=lists(
        st.builds(PodVolume, WORD)
        | st.builds(PodVolume, WORD.map("pod-{}".format), st.just(True), st.none() | WORD)
    ),
    needs_devices=st.booleans(),
)
PODS = st.builds(
    Pod,
    name=st.just("pod"),
    namespace=WORD,
    uid=WORD | st.just(""),
    labels=LABELS,
    annotations=ANNOTATIONS,
    owner=st.none() | st.builds(OwnerReference, WORD, WORD, WORD, WORD, st.just(True)),
    spec=SPECS,
    node_name=WORD | st.just(""),
    phase=st.sampled_from(PodPhase),
    ready=st.booleans(),
    priority=st.integers(-5, 5),
    nominated_node_name=WORD | st.just(""),
)


def live(document: Document) -> Document:
    """Add a UID: objects of an API server are not validated."""
    meta = {"uid": "live", **document.raw["metadata"]}
    return Document({**document.raw, "metadata": meta}, document.model)


def again(document: Document) -> list[Document]:
    """Write and read as YAML and JSON."""
    texts = (to_yaml([document.raw]), to_json([document.raw]))
    return [read_documents([("x", text.encode())])[0] for text in texts]


@settings(max_examples=60, deadline=None)
@given(POOLS | CLAIMS | CLASSES | PODS)
def test_encoded_models_decode_to_the_same_value(model: Any) -> None:
    document = live(new_document(model))

    for back in again(document):
        assert back.raw == document.raw
        expected = model
        if hasattr(model, "uid") and not model.uid:
            expected = msgspec.structs.replace(model, uid="live")
        if not getattr(model, "ready", True) and hasattr(model, "conditions"):
            unready = FrozenDict({"Ready": Condition(status="False")})
            expected = msgspec.structs.replace(expected, conditions=unready)
        assert back.model == expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | TRICKY
    | st.text(
        st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufeff\ufffe\uffff"),
        max_size=8,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(WORD, JSON, max_size=4))
def test_unknown_fields_survive_a_round_trip(unknown: dict[str, Any]) -> None:
    raw = yaml.safe_load(POOL)
    raw["metadata"]["uid"] = "live"
    raw["spec"]["xUnknown"] = unknown
    raw["spec"]["template"]["spec"]["xUnknown"] = unknown

    for back in again(Document(raw, None)):
        assert back.raw == raw


def test_an_unchanged_model_leaves_the_document_unchanged() -> None:
    document = read_documents([("p.yaml", POOL.encode())])[0]

    assert document.with_model(document.model) is document
    assert yaml.safe_load(to_yaml([document.raw])) == yaml.safe_load(POOL)


RICH = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: general
  labels: {team: a}
  finalizers: [x]
spec:
  futureField: {kept: true}
  limits: {cpu: "0.5"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 720h0m0s
      requirements:
        - {key: a, operator: In, values: [b], futureNote: one}
        - {key: c, operator: Exists, futureNote: two}
status: {nodes: 3}
"""


def test_a_changed_nodepool_keeps_unknown_fields() -> None:
    document = read_documents([("p.yaml", RICH.encode())])[0]
    pool: NodePool = document.model

    changed = document.with_model(msgspec.structs.replace(pool, weight=7))

    assert changed.raw == {**document.raw, "spec": {**document.raw["spec"], "weight": 7}}
    assert "weight" not in document.raw["spec"]


def test_list_items_keep_unknown_fields_when_another_item_is_removed() -> None:
    document = read_documents([("p.yaml", RICH.encode())])[0]
    pool: NodePool = document.model
    template = msgspec.structs.replace(pool.template, requirements=pool.template.requirements[1:])

    changed = document.with_model(msgspec.structs.replace(pool, template=template))

    assert changed.raw["spec"]["template"]["spec"]["requirements"] == [
        {"key": "c", "operator": "Exists", "futureNote": "two"}
    ]


def test_a_field_removed_from_the_model_is_removed_from_the_document() -> None:
    document = read_documents([("p.yaml", RICH.encode())])[0]

    changed = document.with_model(msgspec.structs.replace(document.model, limits=None))

    assert "limits" not in changed.raw["spec"]
    assert changed.raw["spec"]["futureField"] == {"kept": True}


def test_a_changed_pod_keeps_its_containers() -> None:
    text = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
    - {name: main, image: x, resources: {requests: {cpu: 1}}}
    - {name: side, image: y}
"""
    document = read_documents([("p.yaml", text.encode())])[0]

    changed = document.with_model(msgspec.structs.replace(document.model, node_name="n1"))

    assert changed.raw["spec"]["nodeName"] == "n1"
    assert changed.raw["spec"]["containers"] == document.raw["spec"]["containers"]


def test_a_legacy_object_is_written_as_v1() -> None:
    text = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: old}\nspec: {}\n"

    document = read_documents([("p.yaml", text.encode())])[0]

    assert document.raw["apiVersion"] == "karpenter.sh/v1"
    assert document.raw["kind"] == "NodePool"
    assert read_documents([("q.yaml", to_yaml([document.raw]).encode())])[0].model == document.model


def test_objects_of_other_kinds_are_kept() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: 'on'}\n"

    document = read_documents([("c.yaml", text.encode())])[0]

    assert document.model is None
    assert yaml.safe_load(to_yaml([document.raw]))["data"] == {"x": "on"}


def test_a_kind_without_encoder_can_be_read_but_not_changed() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
    document = read_documents([("n.yaml", text.encode())])[0]

    with pytest.raises(ValueError, match="Namespace can be read, not changed"):
        document.with_model(msgspec.structs.replace(document.model, name="b"))


def test_several_objects_become_one_json_list_that_reads_back() -> None:
    documents = read_documents([("p.yaml", (POOL + "---" + RICH.replace("general", "b")).encode())])

    text = to_json([document.raw for document in documents])

    assert json.loads(text)["kind"] == "List"
    assert [document.raw for document in read_documents([("l.json", text.encode())])] == [
        document.raw for document in documents
    ]
