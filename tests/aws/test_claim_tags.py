"""Claim tags: instances are assigned to claims by their tags alone."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.claim_tags import (
    assign_instances,
    claim_key,
    claim_list_tags,
    cluster_tags,
    count_fitting_claims,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True)
CLAIMS = st.lists(NAMES, min_size=1, max_size=120, unique=True).map(
    lambda names: [NodeClaim(name=name, uid=f"uid of {name}") for name in names]
)


class Launched(msgspec.Struct, frozen=True):
    """An instance with its tags."""

    id: str
    tags: dict[str, str]
    is_terminating: bool = False


@given(claims=CLAIMS, missing=st.integers(0, 5), seed=st.randoms(use_true_random=False))
def test_instances_are_assigned_by_tags_as_at_launch(
    claims: list[NodeClaim], missing: int, seed: object
) -> None:
    tags = claim_list_tags(claims)
    ids = [f"i-{number:03}" for number in range(max(0, len(claims) - missing))]
    shuffled = list(ids)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]

    assigned = assign_instances(Launched(entry, tags) for entry in shuffled)

    expected = {claim_key(claim): (claim.name, entry) for claim, entry in zip(claims, ids, strict=False)}
    assert {key: (name, entry.id) for key, (name, entry) in assigned.items()} == expected


@given(claims=CLAIMS, data=st.data())
def test_no_instance_is_assigned_to_two_claims(claims: list[NodeClaim], data: st.DataObject) -> None:
    tags = claim_list_tags(claims)
    instances = [Launched(f"i-{number:03}", tags) for number in range(len(claims))]
    has: dict[str, str] = {}

    for _ in range(3):
        shown = data.draw(st.lists(st.sampled_from(instances), unique_by=lambda instance: instance.id))
        asking = data.draw(st.lists(st.sampled_from(claims), unique_by=lambda claim: claim.name))
        assigned = assign_instances(shown, lambda name: has.get(name, ""))
        for claim in asking:
            if claim_key(claim) in assigned:
                has[claim.name] = assigned[claim_key(claim)][1].id

    assert len(set(has.values())) == len(has)


def test_deleted_claims_get_nothing_and_terminating_instances_come_last() -> None:
    claims = [NodeClaim(name=name, uid=name) for name in ("gone", "one", "two")]
    tags = claim_list_tags(claims)
    instances = [Launched("i-1", tags, is_terminating=True), Launched("i-2", tags), Launched("i-3", tags)]

    assigned = assign_instances(instances, lambda name: None if name == "gone" else "")

    assert {name: entry.id for name, entry in assigned.values()} == {"one": "i-2", "two": "i-3"}


@given(claims=CLAIMS)
def test_tags_respect_the_limits_of_ec2(claims: list[NodeClaim]) -> None:
    tags = claim_list_tags(claims)

    assert all(len(value) <= 256 for value in tags.values())
    assert all(set(value) <= set("abcdefghijklmnopqrstuvwxyz0123456789-=/") for value in tags.values())


@given(claims=CLAIMS, others=st.integers(0, 60))
def test_only_as_many_claims_are_listed_as_tags_allow(claims: list[NodeClaim], others: int) -> None:
    tags = {str(number): "" for number in range(others)}

    many = count_fitting_claims(claims, tags)

    assert 1 <= many <= len(claims)
    assert many == 1 or len(claim_list_tags(claims[:many])) + others + 2 <= 50


def test_two_hundred_claims_fit_beside_the_default_tags() -> None:
    claims = [NodeClaim(name=f"general-purpose-{number:05}", uid=str(number)) for number in range(200)]

    assert (
        count_fitting_claims(claims, cluster_tags("c", pool="general-purpose", node_class="default")) == 200
    )


def test_instances_without_claim_tags_are_not_assigned() -> None:
    assert assign_instances([Launched("i-1", {"Name": "a"})]) == {}


def test_a_cluster_has_four_ownership_tags() -> None:
    assert cluster_tags("prod", pool="general", node_class="default") == {
        "kubernetes.io/cluster/prod": "owned",
        "eks:eks-cluster-name": "prod",
        "karpenter.sh/nodepool": "general",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
