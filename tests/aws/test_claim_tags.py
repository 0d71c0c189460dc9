"""Who a machine is for can be read from its tags alone."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.claim_tags import cluster_tags, deal, fitting, key_of, listed
from dovetail.model.karpenter.nodeclaim import NodeClaim

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True)
CLAIMS = st.lists(NAMES, min_size=1, max_size=120, unique=True).map(
    lambda names: [NodeClaim(name=name, uid=f"uid of {name}") for name in names]
)


class Bought(msgspec.Struct, frozen=True):
    """A machine and its tags."""

    id: str
    tags: dict[str, str]
    ending: bool = False


@given(claims=CLAIMS, missing=st.integers(0, 5), seed=st.randoms(use_true_random=False))
def test_machines_are_dealt_from_their_tags_as_they_were_when_bought(
    claims: list[NodeClaim], missing: int, seed: object
) -> None:
    tags = listed(claims)
    ids = [f"i-{number:03}" for number in range(max(0, len(claims) - missing))]
    shuffled = list(ids)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]

    dealt = deal(Bought(one, tags) for one in shuffled)

    expected = {key_of(claim): (claim.name, one) for claim, one in zip(claims, ids, strict=False)}
    assert {key: (name, one.id) for key, (name, one) in dealt.items()} == expected


@given(claims=CLAIMS, data=st.data())
def test_whatever_ec2_hides_no_machine_is_ever_given_to_two_claims(
    claims: list[NodeClaim], data: st.DataObject
) -> None:
    tags = listed(claims)
    machines = [Bought(f"i-{number:03}", tags) for number in range(len(claims))]
    has: dict[str, str] = {}

    for _ in range(3):
        shown = data.draw(st.lists(st.sampled_from(machines), unique_by=lambda one: one.id))
        asking = data.draw(st.lists(st.sampled_from(claims), unique_by=lambda one: one.name))
        dealt = deal(shown, lambda name: has.get(name, ""))
        for claim in asking:
            if key_of(claim) in dealt:
                has[claim.name] = dealt[key_of(claim)][1].id

    assert len(set(has.values())) == len(has)


def test_who_is_gone_gets_nothing_and_machines_that_end_are_given_last() -> None:
    claims = [NodeClaim(name=name, uid=name) for name in ("gone", "one", "two")]
    tags = listed(claims)
    machines = [Bought("i-1", tags, ending=True), Bought("i-2", tags), Bought("i-3", tags)]

    dealt = deal(machines, lambda name: None if name == "gone" else "")

    assert {name: one.id for name, one in dealt.values()} == {"one": "i-2", "two": "i-3"}


@given(claims=CLAIMS)
def test_tags_keep_to_what_ec2_allows(claims: list[NodeClaim]) -> None:
    tags = listed(claims)

    assert all(len(value) <= 256 for value in tags.values())
    assert all(
        set(value) <= set("abcdefghijklmnopqrstuvwxyz0123456789-=/") for value in tags.values()
    )


@given(claims=CLAIMS, others=st.integers(0, 60))
def test_only_as_many_claims_are_listed_as_there_is_room_for(
    claims: list[NodeClaim], others: int
) -> None:
    tags = {str(number): "" for number in range(others)}

    many = fitting(claims, tags)

    assert 1 <= many <= len(claims)
    assert many == 1 or len(listed(claims[:many])) + others + 2 <= 50


def test_two_hundred_claims_of_a_pool_fit_beside_the_usual_tags() -> None:
    claims = [
        NodeClaim(name=f"general-purpose-{number:05}", uid=str(number)) for number in range(200)
    ]

    assert fitting(claims, cluster_tags("c", pool="general-purpose", node_class="default")) == 200


def test_machines_that_nobody_listed_are_dealt_to_nobody() -> None:
    assert deal([Bought("i-1", {"Name": "a"})]) == {}


def test_a_cluster_knows_its_own_by_four_tags() -> None:
    assert cluster_tags("prod", pool="general", node_class="default") == {
        "kubernetes.io/cluster/prod": "owned",
        "eks:eks-cluster-name": "prod",
        "karpenter.sh/nodepool": "general",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
