"""Checks of a migration: a cluster of Karpenter 1.14 is ready, and each problem is named."""

import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.cli.run.command import run
from dovetail.data.bundled import bundled_catalog
from dovetail.dump.strip import strip_objects
from dovetail.migration import Item, Level, MigrationReport, check_migration
from dovetail.migration.facts import MigrationFacts
from dovetail.migration.settings import HELM_VALUES
from dovetail.migration.sources import read_dumps
from tests.support.helm.charts import CHART
from tests.support.karpenter import objects as karpenter
from tests.support.karpenter.hashes import NODECLASS, NODEPOOL

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
Objects = list[dict[str, Any]]


def reject_maybe(variable: str, value: str) -> str | None:
    return f"{variable} cannot be {value}" if value == "Maybe" else None


def report_of(objects: Objects) -> MigrationReport:
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    facts = read_dumps([("dump.json", data)], now=NOW, catalog=bundled_catalog())
    return check_migration(MigrationFacts.of(facts, reject_maybe))


def the_cluster(edit: Callable[[Objects], None] = lambda _: None, **options: Any) -> MigrationReport:
    """Return the report about a cluster of Karpenter 1.14 after an edit."""
    objects = karpenter.a_cluster(now=NOW, **options)
    edit(objects)
    return report_of(objects)


def the(kind: str, objects: Objects, name: str = "") -> dict[str, Any]:
    return next(obj for obj in objects if obj["kind"] == kind and name in ("", obj["metadata"]["name"]))


def find(report: MigrationReport, level: Level, text: str) -> Item:
    """Return the only item of a level with a text."""
    matches = [
        item
        for item in report.items
        if item.level is level and text in f"{item.about} {item.text} {item.fix}"
    ]
    assert len(matches) == 1, [(item.level, item.about, item.text) for item in report.items]
    return matches[0]


def test_a_cluster_of_karpenter_1_14_is_ready_and_no_drift_starts() -> None:
    report = the_cluster()

    assert report.level is Level.NOTE, report.items
    assert report.karpenter == "1.14.1"
    assert "2 NodeClaims compared" in find(report, Level.OK, "no drift starts").text
    assert "v6 (2)" in find(report, Level.OK, "hash of EC2NodeClass").text
    assert karpenter.ROLE_ARN in find(report, Level.OK, "ServiceAccount").text


@pytest.mark.parametrize("version", ["v3", "v4", "v5"])
def test_nodeclaims_with_older_hash_versions_do_not_drift(version: str) -> None:
    def age(objects: Objects) -> None:
        for obj in objects:
            if NODECLASS.version_key in obj["metadata"].get("annotations", {}):
                obj["metadata"]["annotations"] |= {NODECLASS.version_key: version, NODECLASS.hash_key: "1"}

    report = the_cluster(age)

    assert find(report, Level.OK, "no drift starts")
    assert f"{version} (2)" in find(report, Level.OK, "hash of EC2NodeClass").text


def test_after_a_takeover_the_hashes_are_dovetails() -> None:
    def take_over(objects: Objects) -> None:
        for obj in objects:
            annotations = obj["metadata"].get("annotations", {})
            for rule in (NODEPOOL, NODECLASS):
                if rule.version_key in annotations:
                    annotations[rule.version_key] = "dovetail-v1"

    report = the_cluster(take_over)

    assert "of Dovetail" in find(report, Level.OK, "hash of NodePool").text
    assert "of Dovetail" in find(report, Level.OK, "hash of EC2NodeClass").text


def test_static_drift_that_karpenter_has_not_marked_yet_is_a_warning() -> None:
    def change(objects: Objects) -> None:
        the("NodeClaim", objects, "default-1")["metadata"]["annotations"][NODEPOOL.hash_key] = "1"

    report = the_cluster(change)

    assert find(report, Level.WARNING, "NodePoolDrifted").text.startswith("default-1:")
    assert report.level is Level.WARNING


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda claim: claim["status"].update(imageID="ami-00000000000000000"), "AMIDrift"),
        (
            lambda claim: claim["metadata"]["labels"].update({"kubernetes.io/arch": "arm64"}),
            "RequirementsDrifted",
        ),
    ],
)
def test_drift_from_ami_and_requirements_is_named(edit: Callable[[Any], None], reason: str) -> None:
    report = the_cluster(lambda objects: edit(the("NodeClaim", objects, "default-0")))

    assert find(report, Level.WARNING, reason).text.startswith("default-0:")


def test_nodeclaims_that_karpenter_marked_as_drifted_are_a_note() -> None:
    def mark(objects: Objects) -> None:
        claim = the("NodeClaim", objects, "default-0")
        claim["status"]["imageID"] = "ami-00000000000000000"
        drifted = karpenter.conditions("Drifted", since=NOW)[0] | {"reason": "AMIDrift"}
        claim["status"]["conditions"].append(drifted)

    report = the_cluster(mark)

    assert find(report, Level.NOTE, "drifted already")
    assert report.level is Level.NOTE


def test_settings_are_mapped_to_options_and_values() -> None:
    report = the_cluster()

    assert find(report, Level.OK, "CLUSTER_NAME=live").text == "--cluster-name, settings.clusterName"
    assert find(report, Level.OK, "ReservedCapacity").text == "settings.featureGates.reservedCapacity"


def test_a_setting_without_equivalent_is_a_warning_and_a_rejected_value_a_blocker() -> None:
    def set_up(objects: Objects) -> None:
        objects[0] = karpenter.deployment(
            AMI_REFRESH_INTERVAL="5m",
            FEATURE_GATES="Tomorrow=true",
            PREFERENCE_POLICY="Maybe",
            MY_TOKEN="t0p-s3cret",  # noqa: S106 - not a credential
            AWS_SECRET_ACCESS_KEY="k3y",  # noqa: S106 - not a credential
        )

    report = the_cluster(set_up)

    assert find(report, Level.WARNING, "AMI_REFRESH_INTERVAL=5m")
    assert find(report, Level.WARNING, "feature gate Tomorrow")
    assert find(report, Level.BLOCKER, "PREFERENCE_POLICY cannot be Maybe")
    assert find(report, Level.WARNING, "MY_TOKEN")
    assert "s3cret" not in str(report)
    assert "k3y" not in str(report)


def test_options_in_arguments_count_as_settings() -> None:
    def set_up(objects: Objects) -> None:
        container = objects[0]["spec"]["template"]["spec"]["containers"][0]
        container["args"] = ["--reserved-enis=2", "--isolated-vpc"]

    report = the_cluster(set_up)

    assert find(report, Level.OK, "RESERVED_ENIS=2")
    assert find(report, Level.OK, "ISOLATED_VPC=true")


def test_every_mapped_setting_is_an_option_of_the_command_and_a_value_of_the_chart() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    variables = {option.envvar for option in run.params if isinstance(option.envvar, str)}
    assert set(HELM_VALUES) <= variables
    for path in HELM_VALUES.values():
        value = values
        for step in path.split("."):
            assert step in value, path
            value = value[step]


def test_an_older_karpenter_needs_more_permissions_and_no_webhook() -> None:
    report = the_cluster(version="1.0.8")

    assert "ec2:DescribeCapacityReservations" in find(report, Level.WARNING, "policy").text
    commands = str(report.take_over)
    assert "webhook.enabled=false" in commands


def test_karpenter_before_1_0_is_a_blocker() -> None:
    report = the_cluster(version="0.37.5")

    assert find(report, Level.BLOCKER, "upgrade to Karpenter 1.x first")


def test_a_crd_without_v1_or_with_a_needed_webhook_is_a_blocker() -> None:
    def age(objects: Objects) -> None:
        pools = the("CustomResourceDefinition", objects, "nodepools.karpenter.sh")
        pools["spec"]["versions"][0]["name"] = "v1beta1"
        claims = the("CustomResourceDefinition", objects, "nodeclaims.karpenter.sh")
        claims["spec"]["conversion"] = {"strategy": "Webhook"}
        claims["status"]["storedVersions"] = ["v1beta1", "v1"]
        objects.remove(the("CustomResourceDefinition", objects, "ec2nodeclasses.karpenter.k8s.aws"))

    report = the_cluster(age)

    assert find(report, Level.BLOCKER, "Dovetail needs v1")
    assert find(report, Level.BLOCKER, "reads fail once Karpenter stops")
    assert find(report, Level.BLOCKER, "ec2nodeclasses.karpenter.k8s.aws does not exist")


def test_fields_that_differ_between_the_crds_are_named() -> None:
    def change(objects: Objects) -> None:
        schema = the("CustomResourceDefinition", objects, "nodepools.karpenter.sh")["spec"]["versions"][0]
        fields = schema["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        del fields["replicas"]
        fields["tomorrow"] = {"type": "string"}

    report = the_cluster(change)

    assert find(report, Level.NOTE, "has no spec.replicas")
    assert find(report, Level.NOTE, "has spec.tomorrow, which Dovetail ignores")


def test_webhooks_of_an_older_karpenter_are_blockers_with_a_command() -> None:
    def add(objects: Objects) -> None:
        objects.append(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "validation.webhook.karpenter.sh"},
                "webhooks": [{"failurePolicy": "Fail"}],
            }
        )

    report = the_cluster(add)

    assert report.level is Level.BLOCKER
    item = find(report, Level.BLOCKER, "validation.webhook.karpenter.sh")
    assert item.fix == "kubectl delete validatingwebhookconfiguration validation.webhook.karpenter.sh"


def test_older_objects_are_blockers_and_their_conversion_is_shown() -> None:
    def add(objects: Objects) -> None:
        reference = {"name": "default"}
        objects.append(
            {
                "apiVersion": "karpenter.sh/v1beta1",
                "kind": "NodePool",
                "metadata": {"name": "old", "uid": "1"},
                "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
            }
        )

    report = the_cluster(add)

    assert find(report, Level.BLOCKER, "NodePool (v1beta1)").text.startswith("old:")
    assert find(report, Level.OK, "NodePool/old")


def test_nodeclaims_without_an_instance_and_nodes_without_nodeclaim_are_warnings() -> None:
    def lose(objects: Objects) -> None:
        del the("NodeClaim", objects, "default-0")["status"]["providerID"]

    report = the_cluster(lose)

    assert find(report, Level.WARNING, "without an instance").text.startswith("default-0:")
    assert find(report, Level.WARNING, "nodes without NodeClaim")


@pytest.mark.parametrize("waited", [True, False])
def test_the_wait_for_launches_fails_for_nodeclaims_and_not_for_their_absence(
    waited: bool, tmp_path: Path
) -> None:
    """kubectl lists a NodeClaim or none, and its `wait` fails: it also does without any to wait for."""
    listed = "echo nodeclaim.karpenter.sh/default-0" if waited else "true"
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\nif [ "$1" = get ]; then {listed}; else exit 1; fi\n')
    program.chmod(0o755)
    report = the_cluster()
    (take_over, *_), (hand_back, *_) = report.take_over[1].commands, report.hand_back[0].commands

    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    code = subprocess.run(["/bin/sh", "-c", take_over], env=environment, check=False).returncode

    assert take_over == hand_back
    assert bool(code) is waited


def test_a_lease_in_another_namespace_is_a_warning() -> None:
    def move(objects: Objects) -> None:
        the("Lease", objects)["metadata"]["namespace"] = "karpenter"

    report = the_cluster(move)

    assert "leaderElectionNamespace=karpenter" in find(report, Level.WARNING, "Lease/karpenter").fix


def test_an_expired_lease_is_held_by_no_process() -> None:
    def expire(objects: Objects) -> None:
        the("Lease", objects).update(karpenter.lease("old", renewed=NOW - timedelta(hours=1)))

    assert find(the_cluster(expire), Level.OK, "held by no process")


def test_kubelet_expressions_are_noted_and_unreadable_objects_are_blockers() -> None:
    def change(objects: Objects) -> None:
        the("EC2NodeClass", objects)["spec"]["kubelet"] = {"maxPods": "nodeCpu * 10"}
        the("NodePool", objects)["spec"]["weight"] = "heavy"

    report = the_cluster(change)

    assert find(report, Level.NOTE, "spec.kubelet.maxPods: expressions need the feature gate NodeClassCEL")
    assert find(report, Level.BLOCKER, "spec.weight")


def test_kubelet_settings_that_make_a_class_not_ready_are_blockers() -> None:
    def change(objects: Objects) -> None:
        node_class = the("EC2NodeClass", objects)
        node_class["spec"] |= {"kubelet": {"podsPerCore": 4}, "amiFamily": "Bottlerocket"}
        node_class["spec"]["amiSelectorTerms"] = [{"alias": "bottlerocket@latest"}]

    report = the_cluster(change)

    assert find(report, Level.BLOCKER, "will not be ready (UnsupportedKubeletConfiguration)")
    assert not [item for item in the_cluster().items if "will not be ready" in item.text]


def test_only_differences_that_affect_objects_are_shown() -> None:
    def grow(objects: Objects) -> None:
        objects.append(
            karpenter.nodepool(now=NOW, name="other", consolidationPolicy="WhenEmptyOrUnderutilized")
        )

    plain, grown = the_cluster(), the_cluster(grow)

    assert not [item for item in plain.items if "equal weight" in item.about]
    assert find(grown, Level.NOTE, "NodePools of equal weight")
    assert find(grown, Level.NOTE, "consolidationMinSavingShare")


def test_commands_use_the_names_of_the_cluster() -> None:
    report = the_cluster()
    commands = [command for step in (*report.take_over, *report.hand_back) for command in step.commands]

    assert "helm get values karpenter -n kube-system -o yaml > karpenter-values.yaml" in commands
    assert "kubectl -n kube-system scale --replicas 0 deployment karpenter" in commands
    assert "kubectl -n kube-system scale --replicas 2 deployment karpenter" in commands
    install = next(command for command in commands if command.startswith("helm install"))
    assert "--set serviceAccount.create=false" in install
    assert "--set serviceAccount.name=karpenter" in install


def test_kinds_that_a_dump_lacks_are_unknown_and_not_ready() -> None:
    objects = [obj for obj in karpenter.a_cluster(now=NOW) if obj["kind"] in ("NodePool", "EC2NodeClass")]

    report = report_of(objects)

    assert "Deployments" in {missing.what for missing in report.unknown}
    assert "NodeClaims" in {missing.what for missing in report.unknown}
    assert report.level is Level.WARNING


def test_nodepool_that_allows_burstable_types_is_noted() -> None:
    def set_requirements(*requirements: dict[str, object]) -> Callable[[Objects], None]:
        def change(objects: Objects) -> None:
            the("NodePool", objects)["spec"]["template"]["spec"]["requirements"] = list(requirements)

        return change

    fixed = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]}
    allowing, forbidding = the_cluster(set_requirements()), the_cluster(set_requirements(fixed))

    assert find(allowing, Level.NOTE, "settings.burstable=allow")
    assert not [item for item in forbidding.items if "burstable" in item.about]


def test_settings_and_service_account_that_a_dump_lacks_are_not_reported_as_checked() -> None:
    objects = [obj for obj in karpenter.a_cluster(now=NOW) if obj["kind"] != "ServiceAccount"]

    report = report_of(strip_objects(objects))

    assert find(report, Level.WARNING, "its environment variables are unknown")
    assert not [item for item in report.items if item.about.startswith("ServiceAccount/")]
    assert "ServiceAccounts" in [unknown.what for unknown in report.unknown]


def test_one_replica_of_karpenter_is_in_the_singular() -> None:
    def scale_down(objects: Objects) -> None:
        deployment = the("Deployment", objects)
        deployment["spec"]["replicas"] = deployment["status"]["readyReplicas"] = 1

    report = the_cluster(scale_down)

    assert find(report, Level.OK, "1 of 1 replica ready")
