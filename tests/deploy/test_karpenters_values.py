"""Values files of Karpenter's chart, 1.0 to 1.14: each value works or is refused by name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.helm.charts import CHART, NAMESPACE, RELEASE, helm, merged, only, try_helm

pytestmark = pytest.mark.slow
DEFAULTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "golden" / "karpenters-values.yaml").read_text()
)
ROLE = "arn:aws:iam::123456789012:role/KarpenterControllerRole-demo"
ADDED: dict[str, dict[str, Any]] = {
    "1.0": {
        "webhook": {"enabled": False, "port": 8443, "metrics": {"port": 8001}},
        "postInstallHook": {"image": {"repository": "public.ecr.aws/bitnami/kubectl", "tag": "1.30"}},
    },
    "1.2": {"settings": {"eksControlPlane": True}, "controller": {"containerName": "controller"}},
    "1.4": {"initContainers": {}, "settings": {"preferencePolicy": "Ignore"}},
    "1.6": {
        "controller": {
            "securityContext": {"appArmorProfile": {}, "seLinuxOptions": {}, "seccompProfile": {}}
        },
        "settings": {"minValuesPolicy": "BestEffort"},
    },
    "1.8": {"settings": {"featureGates": {"StaticCapacity": True}, "disableDryRun": True}},
    "1.10": {
        "settings": {"featureGates": {"staticCapacity": True}},
        "serviceMonitor": {"sampleLimit": 10000},
    },
    "1.12": {"settings": {"enableZonalShift": True}},
    "1.14": {"settings": {"amiRefreshInterval": "1m", "featureGates": {"capacityBuffer": True}}},
}
"""Values that a minor version brought, with an effect where they have one."""
USERS_FILE: dict[str, Any] = {
    "replicas": 3,
    "serviceAccount": {"name": "karpenter", "annotations": {"eks.amazonaws.com/role-arn": ROLE}},
    "podDisruptionBudget": {"name": "karpenter", "maxUnavailable": 1},
    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "system", "effect": "NoSchedule"}],
    "nodeSelector": {"node-role": "system"},
    "topologySpreadConstraints": [],
    "dnsPolicy": "Default",
    "priorityClassName": "system-node-critical",
    "extraVolumes": [{"name": "aws-iam-token", "emptyDir": {}}],
    "logLevel": "debug",
    "controller": {
        "resources": {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        "env": [{"name": "AWS_REGION", "value": "eu-west-1"}],
        "envFrom": [{"configMapRef": {"name": "proxy"}}],
        "extraVolumeMounts": [{"name": "aws-iam-token", "mountPath": "/var/run/token"}],
        "sidecarContainer": [{"name": "proxy", "image": "proxy:1"}],
        "sidecarVolumeMounts": [{"name": "aws-iam-token", "mountPath": "/other"}],
        "metrics": {"port": 8000},
    },
    "settings": {
        "clusterName": "demo",
        "clusterEndpoint": "https://demo.example.com",
        "interruptionQueue": "demo-queue",
        "reservedENIs": "1",
        "vmMemoryOverheadPercent": 0.05,
        "batchMaxDuration": "20s",
        "featureGates": {"spotToSpotConsolidation": True, "nodeRepair": True},
        "awsFeatureGates": {"nodeClassCEL": True},
    },
}
"""Values that users set, as in the guides of Karpenter and EKS."""
OUR_IMAGE = {"controller": {"image": {"repository": "registry.example/dovetail"}}}


def deployment_of(*values: dict[str, Any]) -> dict[str, Any]:
    text = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, values=merged(OUR_IMAGE, *values))
    (deployment,) = [obj for obj in yaml.safe_load_all(text) if obj and obj["kind"] == "Deployment"]
    return deployment


def pod_of(*values: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = deployment_of(*values)["spec"]["template"]["spec"]
    return pod


def environment_of(*values: dict[str, Any]) -> dict[str, str]:
    container = pod_of(*values)["containers"][0]
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


@pytest.mark.parametrize("version", ADDED)
def test_a_complete_values_file_of_each_version_renders(version: str) -> None:
    deployment = deployment_of(DEFAULTS, USERS_FILE, ADDED[version])

    assert deployment["spec"]["replicas"] == 3


def test_values_of_the_pod_are_honoured() -> None:
    pod = pod_of(USERS_FILE)
    controller, sidecar = pod["containers"]

    assert pod["serviceAccountName"] == "karpenter"
    for field in ("tolerations", "dnsPolicy", "priorityClassName"):
        assert pod[field] == USERS_FILE[field]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "node-role": "system"}
    assert "topologySpreadConstraints" not in pod
    assert pod["volumes"] == USERS_FILE["extraVolumes"]
    given = USERS_FILE["controller"]
    assert controller["resources"] == given["resources"]
    assert controller["envFrom"] == given["envFrom"]
    assert controller["volumeMounts"] == given["extraVolumeMounts"]
    assert sidecar["volumeMounts"] == [*given["extraVolumeMounts"], *given["sidecarVolumeMounts"]]


def test_settings_and_environment_are_honoured() -> None:
    variables = environment_of(USERS_FILE)

    expected = {
        "CLUSTER_NAME": "demo",
        "CLUSTER_ENDPOINT": "https://demo.example.com",
        "INTERRUPTION_QUEUE": "demo-queue",
        "RESERVED_ENIS": "1",
        "VM_MEMORY_OVERHEAD_PERCENT": "0.05",
        "BATCH_MAX_DURATION": "20s",
        "AWS_REGION": "eu-west-1",
        "METRICS_PORT": "8000",
        "LOG_LEVEL": "debug",
        "AWS_FEATURE_GATES": "NodeClassCEL=true",
    }
    assert {name: variables[name] for name in expected} == expected
    gates = dict(gate.split("=") for gate in variables["FEATURE_GATES"].split(","))
    assert gates["SpotToSpotConsolidation"] == gates["NodeRepair"] == "true"
    assert gates["ReservedCapacity"] == "true"


def test_the_role_of_karpenters_service_account_is_kept() -> None:
    text = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, values=merged(OUR_IMAGE, USERS_FILE))
    objects = [obj for obj in yaml.safe_load_all(text) if obj]

    account = only(objects, "ServiceAccount", name="karpenter")
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == ROLE


@pytest.mark.parametrize("spelling", ["StaticCapacity", "staticCapacity"])
def test_static_capacity_works_in_the_spelling_of_each_version(spelling: str) -> None:
    gates = environment_of(USERS_FILE, {"settings": {"featureGates": {spelling: True}}})["FEATURE_GATES"]

    assert gates.count("StaticCapacity") == 1
    assert "StaticCapacity=true" in gates


def test_empty_profiles_of_the_security_context_are_left_out() -> None:
    context = pod_of(USERS_FILE, ADDED["1.6"])["containers"][0]["securityContext"]

    assert "appArmorProfile" not in context
    assert "seLinuxOptions" not in context
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_templates_in_settings_are_evaluated() -> None:
    values = {
        "global": {"cluster": "blue"},
        "settings": {
            "clusterName": "{{ .Values.global.cluster }}",
            "interruptionQueue": "q-{{ .Release.Name }}",
        },
    }

    variables = environment_of(values)

    assert variables["CLUSTER_NAME"] == "blue"
    assert variables["INTERRUPTION_QUEUE"] == f"q-{RELEASE}"


@pytest.mark.parametrize(
    "repository",
    ["public.ecr.aws/karpenter/controller", "123.dkr.ecr.eu-west-1.amazonaws.com/karpenter/controller"],
)
def test_karpenters_image_is_refused(repository: str) -> None:
    values = merged(USERS_FILE, {"controller": {"image": {"repository": repository}}})

    result = try_helm("template", RELEASE, CHART, values=values)

    assert result.returncode != 0
    assert "controller.image.repository is Karpenter's image" in result.stderr


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"webhook": {"enabled": True}}, "/webhook/enabled"),
        ({"settings": {"isolatedVPC": "{{ .Values.x }}"}}, "/settings/isolatedVPC"),
        ({"settings": {"ignoreDRARequests": False}}, "/settings/ignoreDRARequests"),
        ({"settings": {"subnetRefreshInterval": "5m"}}, "/settings/subnetRefreshInterval"),
        ({"settings": {"awsFeatureGates": {"tomorrow": True}}}, "'tomorrow' not allowed"),
        ({"settings": {"assumeRoleARN": ROLE}}, "'assumeRoleARN' not allowed"),
    ],
)
def test_a_value_without_an_equivalent_is_refused_by_name(values: dict[str, Any], name: str) -> None:
    result = try_helm("template", RELEASE, CHART, values=merged(OUR_IMAGE, USERS_FILE, values))

    assert result.returncode != 0
    assert name in result.stderr
