"""Who a machine is for can be read from its tags alone."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.claimtags import cluster_tags, deal, fitting, key_of, listed
from dovetail.model.nodeclaim import NodeClaim

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True)
CLAIMS = st.lists(NAMES, min_size=1, max_size=120, unique=True).map(
    lambda names: [NodeClaim(name=name, uid=f"uid of {name}") for name in names]
)


@given(claims=CLAIMS, missing=st.integers(0, 5), seed=st.randoms(use_true_random=False))
def test_machines_are_dealt_from_their_tags_as_they_were_when_bought(
    claims: list[NodeClaim], missing: int, seed: object
) -> None:
    tags = listed(claims)
    ids = [f"i-{number:03}" for number in range(max(0, len(claims) - missing))]
    shuffled = list(ids)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]

    dealt = deal((one, tags, one) for one in shuffled)

    expected = {key_of(claim): (claim.name, one) for claim, one in zip(claims, ids, strict=False)}
    assert dealt == expected


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
    assert deal([("i-1", {"Name": "a"}, "i-1")]) == {}


def test_a_cluster_knows_its_own_by_four_tags() -> None:
    assert cluster_tags("prod", pool="general", node_class="default") == {
        "kubernetes.io/cluster/prod": "owned",
        "eks:eks-cluster-name": "prod",
        "karpenter.sh/nodepool": "general",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
