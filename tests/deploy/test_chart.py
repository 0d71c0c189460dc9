"""The Helm chart: rendered objects, value validation and options of the command."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dovetail.cli.run.command import run
from tests.support.helm.charts import (
    CHART,
    CRDS,
    REQUIRED_VALUES,
    helm,
    merged,
    only,
    rendered,
    rendered_text,
    try_helm,
)

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).parent / "golden"
FULL: dict[str, Any] = yaml.safe_load((GOLDEN / "full-values.yaml").read_text())

OPTIONS_WITHOUT_VALUE = {
    "cloud": "the chart is for clusters on AWS, not for virtual nodes",
    "kubeconfig": "the pod uses its service account",
    "context": "the pod uses its service account",
    "prices": "a file: controller.extraArgs and extraVolumes",
    "discounts": "a file: controller.extraArgs and extraVolumes",
    "dashboard_token_file": "mounted from the Secret controller.dashboard.tokenSecret",
}
"""Options of the command that are not chart values, and why."""
OUTSIDE_SETTINGS = {
    "metrics_port": ("controller", "metrics", "port"),
    "health_probe_port": ("controller", "healthProbe", "port"),
    "dashboard_port": ("controller", "dashboard", "port"),
    "log_level": ("logLevel",),
    "log_format": ("logFormat",),
}
"""Options that are outside of ``settings``, as in Karpenter's chart."""


@pytest.mark.parametrize(("name", "values"), [("default", REQUIRED_VALUES), ("full", FULL)])
def test_rendered_manifests_equal_the_golden_files(name: str, values: dict[str, Any]) -> None:
    file = GOLDEN / f"{name}.yaml"

    text = rendered_text(values)

    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), "run with UPDATE_GOLDEN=1 to accept the change"


@pytest.mark.parametrize(
    ("chart", "values"),
    [(CHART, REQUIRED_VALUES), (CHART, FULL), (CRDS, {})],
    ids=["required", "full", "crds"],
)
def test_helm_lint_passes(chart: Path, values: dict[str, Any]) -> None:
    output = helm("lint", "--strict", chart, values=merged(REQUIRED_VALUES, values) if values else {})

    assert "0 chart(s) failed" in output


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each leaf; a list is a leaf."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    else:
        yield ".".join(path), value


def scalars(value: Any) -> Iterator[str]:
    """Yield every string and number in a value, as text."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from scalars(item)
    elif not isinstance(value, bool) and value is not None:
        yield str(value)


def test_every_value_has_an_effect() -> None:
    """All full values differ from the defaults and appear in the rendered text."""
    defaults = dict(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    full, text = dict(leaves(FULL)), (GOLDEN / "full.yaml").read_text()

    unchanged = {path for path, value in full.items() if defaults.get(path, ...) == value}
    missing = {path for path, value in full.items() if not all(part in text for part in scalars(value))}

    assert unchanged == set()
    # A digest takes precedence over a tag.
    assert missing == {"controller.image.tag"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"settings": {"clusterNmae": "demo"}}, "'clusterNmae' not allowed"),
        ({"replica": 3}, "'replica' not allowed"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"logLevel": "warn"}, "at '/logLevel': value must be one of 'debug', 'info', 'error'"),
        ({"settings": {"batchIdleDuration": 1}}, "at '/settings/batchIdleDuration'"),
        ({"settings": {"batchIdleDuration": "1 second"}}, "at '/settings/batchIdleDuration'"),
        ({"settings": {"vmMemoryOverheadPercent": 7.5}}, "at '/settings/vmMemoryOverheadPercent'"),
        ({"settings": {"clusterEndpoint": "demo"}}, "at '/settings/clusterEndpoint'"),
        ({"settings": {"preferencePolicy": "Maybe"}}, "'Respect', 'Ignore'"),
        ({"settings": {"featureGates": {"drift": True}}}, "'drift' not allowed"),
        ({"settings": {"featureGates": {"nodeRepair": "true"}}}, "got string, want boolean"),
        ({"settings": {"disableLeaderElection": True}}, "at '/replicas': maximum: got 2, want 1"),
        ({"controller": {"image": {"digest": "0123"}}}, "at '/controller/image/digest'"),
        ({"controller": {"metrics": {"port": 0}}}, "at '/controller/metrics/port'"),
        ({"controller": {"dashboard": {"enabled": True}}}, "at '/controller/dashboard/tokenSecret'"),
        ({"serviceAccount": {"annotations": {"a": True}}}, "got boolean, want string"),
        ({"terminationGracePeriodSeconds": 1}, "at '/terminationGracePeriodSeconds'"),
    ],
)
def test_an_invalid_value_is_rejected_by_the_schema(values: dict[str, Any], message: str) -> None:
    result = try_helm("template", "dovetail", CHART, values=merged(REQUIRED_VALUES, values))

    assert result.returncode != 0
    assert message in result.stderr


def test_a_values_file_of_karpenters_chart_works_unchanged() -> None:
    """The common values of such a file, at Karpenter's defaults."""
    values = yaml.safe_load((GOLDEN / "karpenters-values.yaml").read_text())

    objects = rendered(**merged(values, REQUIRED_VALUES))

    (container,) = only(objects, "Deployment", name="karpenter")["spec"]["template"]["spec"]["containers"]
    variables = {env["name"]: env.get("value") for env in container["env"]}
    assert variables["RESERVED_ENIS"] == "0"
    assert variables["INTERRUPTION_QUEUE"] == "demo"


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"ignoreDRARequests": False}},
        {"webhook": {"enabled": True}},
        {"settings": {"amiRefreshInterval": "5m"}},
        {"logOutputPaths": ["/var/log/karpenter"]},
    ],
)
def test_unsupported_values_of_karpenters_chart_are_rejected(values: dict[str, Any]) -> None:
    result = try_helm("template", "dovetail", CHART, values=merged(REQUIRED_VALUES, values))

    assert result.returncode != 0
    assert "value must be" in result.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"settings": {"clusterName": ""}}, "settings.clusterName is required"),
        ({"controller": {"image": {"repository": ""}}}, "controller.image.repository is required"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is required"),
    ],
)
def test_a_missing_required_value_is_an_error(values: dict[str, Any], message: str) -> None:
    result = try_helm("template", "dovetail", CHART, values=merged(REQUIRED_VALUES, values))

    assert result.returncode != 0
    assert message in result.stderr


def environment(**values: Any) -> dict[str, str]:
    (container, *_) = only(rendered(**values), "Deployment", name="nodes" if values else "dovetail")["spec"][
        "template"
    ]["spec"]["containers"]
    return {env["name"]: env["value"] for env in container["env"] if "value" in env}


def variables() -> dict[str, str]:
    """Return the environment variable of each option."""
    return {
        option.name: option.envvar if isinstance(option.envvar, str) else option.envvar[0]
        for option in run.params
        if isinstance(option, click.Option) and option.envvar and option.name
    }


def chart_options() -> set[str]:
    """Return the options that the chart must support."""
    return {
        option.name
        for option in run.params
        if option.name and not option.name.startswith("virtual") and option.name not in OPTIONS_WITHOUT_VALUE
    }


def test_dashboard_is_off_unless_enabled() -> None:
    assert "dashboard" not in rendered_text(REQUIRED_VALUES).lower()


def test_dashboard_has_no_port_that_other_pods_could_reach() -> None:
    """It listens on the pod's loopback address, which `kubectl port-forward` connects to."""
    objects = rendered(
        **merged(REQUIRED_VALUES, {"controller": {"dashboard": {"enabled": True, "tokenSecret": "token"}}})
    )

    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {port["containerPort"] for port in container["ports"]} == {8080, 8081}
    assert [port["port"] for port in only(objects, "Service")["spec"]["ports"]] == [8080]


def test_every_option_of_the_command_is_a_value_or_has_a_reason() -> None:
    variables_set = environment(**FULL)

    assert {name for name in chart_options() if variables()[name] not in variables_set} == set()


def test_every_variable_that_the_chart_sets_is_an_option_of_the_command() -> None:
    additional = {env["name"] for env in FULL["controller"]["env"]}

    assert set(environment(**FULL)) - additional - set(variables().values()) == set()


def test_every_setting_is_named_after_its_option() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    options = {name.replace("_", "") for name in chart_options() - set(OUTSIDE_SETTINGS)}

    assert {name.lower() for name in values["settings"]} == options
    for path in OUTSIDE_SETTINGS.values():
        value: Any = values
        for key in path:
            value = value[key]
        assert value


def test_the_command_accepts_the_charts_environment() -> None:
    for values in ({}, FULL):
        variables_set = environment(**values)
        options = {variable: name for name, variable in variables().items()}

        context = run.make_context("run", [], auto_envvar_prefix=None, **_default_map(variables_set, options))

        assert context.params["cluster_name"] == "demo"
        for variable, text in variables_set.items():
            if variable in options and text in ("true", "false"):
                assert context.params[options[variable]] is (text == "true")


def _default_map(variables_set: dict[str, str], options: dict[str, str]) -> dict[str, Any]:
    """Return the arguments that make click parse these variables as options."""
    return {
        "default_map": {
            options[variable]: text for variable, text in variables_set.items() if variable in options
        }
    }


def test_defaults_of_the_chart_equal_those_of_the_command() -> None:
    variables_set = environment()
    options = {variable: name for name, variable in variables().items()}
    by_chart = run.make_context("run", [], **_default_map(variables_set, options)).params
    by_command = run.make_context("run", ["--cluster-name", "demo"]).params

    differing = {name for name, value in by_chart.items() if value != by_command[name]}

    # A pod must be reachable from outside, and the lease is in the release's namespace.
    assert differing == {"bind_address", "leader_election_namespace"}


def test_the_pod_runs_as_non_root_with_a_read_only_root_file_system() -> None:
    spec = only(rendered(), "Deployment")["spec"]["template"]["spec"]

    (controller,) = spec["containers"]
    assert controller["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert spec["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & spec.keys()


def maps(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every map in a value, itself included."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from maps(part)


def test_every_pod_with_a_service_account_mounts_its_token() -> None:
    """The accounts mount none: only pods that ask for it, `helm test` included, have one."""
    objects = rendered(recorder={"enabled": True})

    specs = [spec for obj in objects for spec in maps(obj) if "serviceAccountName" in spec]
    accounts = [obj for obj in objects if obj["kind"] == "ServiceAccount"]
    assert [spec.get("automountServiceAccountToken") for spec in specs] == [True] * 3
    assert [account["automountServiceAccountToken"] for account in accounts] == [False] * 2


def test_labels_are_valid_with_the_longest_release_name() -> None:
    values = merged(REQUIRED_VALUES, {"recorder": {"enabled": True}})
    objects = list(yaml.safe_load_all(helm("template", "r" * 53, CHART, values=values)))

    labels = [part[key] for part in maps(objects) for key in ("labels", "matchLabels") if key in part]
    texts = {text for each in labels for text in each.values()}
    # What the API server accepts: at most 63 characters.
    assert [text for text in texts if not re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", text)] == []
    assert f"{'r' * 53}-dove-test" in texts


def test_the_pod_does_not_run_on_nodes_of_a_node_pool() -> None:
    spec = only(rendered(), "Deployment")["spec"]["template"]["spec"]

    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]
    assert spec["priorityClassName"] == "system-cluster-critical"


def test_a_role_annotation_keeps_the_regional_sts_annotation() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/dovetail"}

    account = only(rendered(serviceAccount={"annotations": role}), "ServiceAccount")

    assert account["metadata"]["annotations"] == {**role, "eks.amazonaws.com/sts-regional-endpoints": "true"}


def test_labels_do_not_change_the_selector_of_the_deployment() -> None:
    plain = only(rendered(), "Deployment")
    labelled = only(rendered(additionalLabels={"a": "b"}, podLabels={"c": "d"}), "Deployment")

    assert plain["spec"]["selector"] == labelled["spec"]["selector"]


def test_the_image_tag_defaults_to_the_app_version() -> None:
    def image(**values: str) -> str:
        spec = only(rendered(controller={"image": values}), "Deployment")["spec"]["template"]["spec"]
        return str(spec["containers"][0]["image"])

    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    digest = f"sha256:{'0' * 64}"
    assert image() == f"registry.example/dovetail:{version}"
    assert image(tag="edge") == "registry.example/dovetail:edge"
    assert image(tag="edge", digest=digest) == f"registry.example/dovetail@{digest}"
