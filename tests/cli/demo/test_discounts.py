"""``dovetail demo --discounts``: prices after discounts."""

import json
from pathlib import Path

import pytest

from tests.cli.demos import SMALL, demo_of

OFF = "discounts: [{percent: 25}]\n"
SLOT = "reservations: [{instanceType: m5.large, count: 1, price: 0.05}]\n"
PLAN = "savingsPlans: [{commitment: 0.01, percent: 50}]\n"
LAUNCHING = SMALL.replace(
    "home: {count: 1, instanceType: m5.large}\nmanifests:\n",
    """\
manifests:
  - apiVersion: karpenter.k8s.aws/v1
    kind: EC2NodeClass
    metadata: {name: default}
    spec:
      role: nodes
      amiSelectorTerms: [{alias: al2023@latest}]
      subnetSelectorTerms: [{tags: {any: "*"}}]
      securityGroupSelectorTerms: [{tags: {any: "*"}}]
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: {name: default}
    spec:
      template:
        spec:
          nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
          requirements:
            - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
            - {key: kubernetes.io/arch, operator: In, values: [amd64]}
            - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
""",
)


def run(tmp_path: Path, scenario: str, book: str) -> dict[str, object]:
    file = tmp_path / "book.yaml"
    file.write_text(book)
    done = demo_of(tmp_path, scenario, "-o", "json", "--discounts", str(file))
    assert done.exit_code == 0, done.output
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize(("book", "paid"), [(OFF, 0.072), (SLOT, 0.05), (PLAN, 0.01 + 0.096 - 0.02)])
def test_cost_is_after_discounts(tmp_path: Path, book: str, paid: float) -> None:
    report = run(tmp_path, SMALL, book)

    [phase] = report["phases"]  # type: ignore[misc]
    assert phase["price_per_hour"] == pytest.approx(paid, abs=1e-4)  # type: ignore[index]
    assert "after discounts of" in str(report["prices"])


def test_reserved_capacity_that_is_paid_for_is_launched_first(tmp_path: Path) -> None:
    report = run(tmp_path, LAUNCHING, SLOT)

    [phase] = report["phases"]  # type: ignore[misc]
    assert phase["instance_types"] == {"m5.large": 1}  # type: ignore[index]
    assert phase["price_per_hour"] == 0.05  # type: ignore[index]


def test_invalid_discount_file_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "book.yaml"
    file.write_text("discounts: [{percent: 0}]")

    done = demo_of(tmp_path, SMALL, "--discounts", str(file))

    assert done.exit_code == 1
    assert "discounts[0].percent: 0 is not between 1 and 100" in done.stderr
