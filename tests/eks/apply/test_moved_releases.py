"""Helm releases that change their name, namespace or chart."""

from typing import Any

import pytest

from dovetail.eks.apply.preflight import ReplacementError
from dovetail.eks.config.cluster import ClusterConfig
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

pytestmark = pytest.mark.slow

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
CONTROLLER = {"image": "registry.example.com/dovetail:1"}


def the_cluster(controller: dict[str, Any] | None = None, **addons: Any) -> ClusterConfig:
    return a_cluster(vpc=NETWORK, controller={**CONTROLLER, **(controller or {})}, addons=addons)


def test_moved_addon_is_deleted_before_it_is_installed_again(account: TestAccount) -> None:
    account.apply(the_cluster(**{"metrics-server": {"namespace": "monitoring"}}))
    moved = the_cluster(**{"metrics-server": {"namespace": "kube-system"}})

    result = account.apply(moved)

    assert [step.id for step in result.done] == [
        "delete helm-release/monitoring/metrics-server",
        "create helm-release/kube-system/metrics-server",
    ]
    assert account.plan(moved).steps == ()
    assert account.destroy(moved) == []


def test_move_that_would_delete_crds_is_refused(account: TestAccount) -> None:
    account.apply(the_cluster(keda=True))

    for change, message in (
        (the_cluster(keda={"namespace": "scaling"}), r"addons\.keda\.namespace: keda/keda is installed"),
        (the_cluster({"namespace": "autoscaling"}, keda=True), "of kube-system/dovetail"),
        (the_cluster({"release": "nodes"}, keda=True), "of kube-system/dovetail"),
        (the_cluster({"kind": "karpenter", "image": None}, keda=True), "of kube-system/dovetail"),
        (the_cluster({"kind": "karpenter", "release": "dovetail"}, keda=True), "of kube-system/dovetail"),
    ):
        with pytest.raises(ReplacementError, match=message):
            account.plan(change)

    assert account.plan(the_cluster(keda=True)).steps == ()
