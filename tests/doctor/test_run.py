"""Running checks: needs, order of findings, skipped checks."""

from typing import Any

import msgspec
import pytest

from dovetail.doctor.check import Check
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.run import run_checks
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_POOLS, STORAGE_CLASSES
from tests.doctor.cluster import Cluster
from tests.doctor.conftest import Gather

SYMPTOM = Symptom(about="x", seen="x", wrong="x", fix="x")


def a_check(**fields: object) -> Check:
    default = Check(
        code="X1", title="x", severity=Severity.RISK, detection="x", remedy="x", find=lambda _: [SYMPTOM]
    )
    return msgspec.structs.replace(default, **fields)


def without(healthy: Facts, *needs: object) -> Facts:
    return msgspec.structs.replace(healthy, unseen=dict.fromkeys(needs, "closed"))


def test_check_without_its_facts_is_skipped_with_the_reasons(healthy: Facts) -> None:
    check = a_check(needs=(NODE_POOLS, STORAGE_CLASSES, Part.PLAN))

    report = run_checks(without(healthy, STORAGE_CLASSES, Part.PLAN), [check])

    assert (report.findings, report.checked) == ((), ())
    assert [(fact.what, fact.why) for fact in report.skipped[0].missing] == [
        ("StorageClasses", "closed"),
        ("a Terraform plan", "closed"),
    ]


def test_one_of_several_sources_is_enough(healthy: Facts) -> None:
    check = a_check(any_of=(Part.PLAN, Part.SPEC))

    partial = run_checks(without(healthy, Part.PLAN), [check])
    none = run_checks(without(healthy, Part.PLAN, Part.SPEC), [check])

    assert (partial.checked, none.checked) == (("X1",), ())


@pytest.mark.parametrize(("symptoms", "checked"), [([SYMPTOM], ("X1",)), ([], ())])
def test_check_without_optional_facts_may_have_findings_but_never_passes(
    symptoms: list[Symptom], checked: tuple[str, ...], healthy: Facts
) -> None:
    check = a_check(helped_by=(Part.QUEUE,), find=lambda _: symptoms)

    report = run_checks(without(healthy, Part.QUEUE), [check])

    assert report.checked == checked
    assert len(report.skipped) == 1 - len(checked)


def test_findings_are_ordered_by_severity(healthy: Facts) -> None:
    checks = [a_check(severity=severity) for severity in reversed(Severity)]

    report = run_checks(healthy, checks)

    assert [finding.severity for finding in report.findings] == list(Severity)


def test_without_facts_every_check_is_skipped(healthy: Facts) -> None:
    needs = {need for check in CHECKS for need in (*check.needs, *check.any_of, *check.helped_by)}

    report = run_checks(without(healthy, *needs))

    assert report.checked == report.findings == ()
    assert len(report.skipped) == len(CHECKS)


def test_without_a_controller_its_facts_are_unknown(cluster: Cluster, gather: Gather) -> None:
    cluster.api.delete(DEPLOYMENTS, "karpenter", "kube-system")

    facts = gather(cluster)

    assert facts.unseen[Part.CONTROLLER] == "there is no Deployment of Karpenter or Dovetail"


def test_unknown_controller_version_skips_the_checks_that_need_it(cluster: Cluster, gather: Gather) -> None:
    def hide(deployment: dict[str, Any]) -> None:
        del deployment["metadata"]["labels"]["app.kubernetes.io/version"]
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "karpenter@sha256:0"

    cluster.change(DEPLOYMENTS, "karpenter", hide, "kube-system")

    report = run_checks(gather(cluster))

    assert {check.code for check in report.skipped} == {"I4", "K4", "K6", "P7"}
    assert report.findings == ()
