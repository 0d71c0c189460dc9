"""Well-known and restricted label keys."""

import pytest

from dovetail.model import labels as label_keys


@pytest.mark.parametrize(
    "key",
    [
        label_keys.HOSTNAME,
        "karpenter.sh/test",
        "sub.karpenter.sh/test",
        label_keys.REGISTERED,
        label_keys.INITIALIZED,
    ],
)
def test_a3_our_own_domain_and_the_hostname_are_restricted(key: str) -> None:
    assert label_keys.is_restricted(key)


@pytest.mark.parametrize(
    "key",
    [
        label_keys.NODEPOOL,
        label_keys.CAPACITY_TYPE,
        label_keys.ZONE,
        "kubernetes.io/custom",
        "sub.kubernetes.io/custom",
        "k8s.io/custom",
        "sub.k8s.io/custom",
        "kops.k8s.io/instancegroup",
        "notkarpenter.sh/test",
        "karpenter.sh",
        "team",
        *label_keys.AWS_INSTANCE_LABELS,
    ],
)
def test_p19_kubernetes_domains_and_well_known_keys_are_free_to_use(key: str) -> None:
    assert not label_keys.is_restricted(key)


def test_every_alias_maps_to_a_well_known_key() -> None:
    assert set(label_keys.NORMALIZED_LABELS.values()) <= label_keys.WELL_KNOWN


def test_a_key_without_an_alias_is_unchanged() -> None:
    assert label_keys.normalize_key("team") == "team"
    assert label_keys.normalize_key("beta.kubernetes.io/arch") == label_keys.ARCH
