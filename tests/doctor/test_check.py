"""How checks are made, and when one is not."""

from typing import Any

import msgspec
import pytest

from dovetail.doctor.check import Check, examined
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_POOLS, STORAGE_CLASSES
from tests.doctor.cluster import Cluster
from tests.doctor.conftest import Look

ILL = Symptom(about="x", seen="x", wrong="x", fix="x")


def a_check(**fields: object) -> Check:
    usual = Check(
        code="X1", title="x", severity=Severity.RISK, how="x", mend="x", find=lambda _: [ILL]
    )
    return msgspec.structs.replace(usual, **fields)


def without(healthy: Facts, *needs: object) -> Facts:
    return msgspec.structs.replace(healthy, unseen=dict.fromkeys(needs, "closed"))


def test_a_check_whose_need_is_unseen_is_not_made_and_says_what_it_lacks(healthy: Facts) -> None:
    check = a_check(needs=(NODE_POOLS, STORAGE_CLASSES, Part.PLAN))

    report = examined(without(healthy, STORAGE_CLASSES, Part.PLAN), [check])

    assert (report.findings, report.checked) == ((), ())
    assert [(one.what, one.why) for one in report.skipped[0].missing] == [
        ("StorageClasses", "closed"),
        ("a Terraform plan", "closed"),
    ]


def test_one_of_several_sources_is_enough(healthy: Facts) -> None:
    check = a_check(any_of=(Part.PLAN, Part.SPEC))

    one = examined(without(healthy, Part.PLAN), [check])
    none = examined(without(healthy, Part.PLAN, Part.SPEC), [check])

    assert (one.checked, none.checked) == (("X1",), ())


@pytest.mark.parametrize(("found", "checked"), [([ILL], ("X1",)), ([], ())])
def test_a_check_that_saw_only_part_may_find_something_but_calls_nothing_fine(
    found: list[Symptom], checked: tuple[str, ...], healthy: Facts
) -> None:
    check = a_check(helped_by=(Part.QUEUE,), find=lambda _: found)

    report = examined(without(healthy, Part.QUEUE), [check])

    assert report.checked == checked
    assert len(report.skipped) == 1 - len(checked)


def test_the_worst_comes_first(healthy: Facts) -> None:
    checks = [a_check(severity=one) for one in reversed(Severity)]

    report = examined(healthy, checks)

    assert [one.severity for one in report.findings] == list(Severity)


def test_without_facts_no_check_is_called_made(healthy: Facts) -> None:
    needs = {need for one in CHECKS for need in (*one.needs, *one.any_of, *one.helped_by)}

    report = examined(without(healthy, *needs), CHECKS)

    assert report.checked == report.findings == ()
    assert len(report.skipped) == len(CHECKS)


def test_a_cluster_without_a_controller_leaves_checks_of_it_unmade(
    cluster: Cluster, look: Look
) -> None:
    cluster.api.delete(DEPLOYMENTS, "karpenter", "kube-system")

    facts = look(cluster)

    assert facts.unseen[Part.CONTROLLER] == "there is no Deployment of Karpenter or Dovetail"


def test_a_controller_of_unknown_version_leaves_checks_of_its_version_unmade(
    cluster: Cluster, look: Look
) -> None:
    def hide(one: dict[str, Any]) -> None:
        del one["metadata"]["labels"]["app.kubernetes.io/version"]
        one["spec"]["template"]["spec"]["containers"][0]["image"] = "karpenter@sha256:0"

    cluster.change(DEPLOYMENTS, "karpenter", hide, "kube-system")

    report = examined(look(cluster), CHECKS)

    assert {one.code for one in report.skipped} == {"I4", "K4", "K6", "P7"}
    assert report.findings == ()
