"""What the chart installs, for whom it refuses to, and that the command understands all of it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dovetail.cli.run.command import run
from tests.support.charts import (
    CHART,
    CRDS,
    NEEDED,
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

NOT_FOR_CHARTS = {
    "cloud": "a chart is for clusters on AWS, not for virtual nodes",
    "kubeconfig": "the pod's own identity is used",
    "context": "the pod's own identity is used",
    "prices": "a file: controller.extraArgs and extraVolumes",
    "discounts": "a file: controller.extraArgs and extraVolumes",
}
"""Options of the command that are no values, and why."""
ELSEWHERE = {
    "metrics_port": ("controller", "metrics", "port"),
    "health_probe_port": ("controller", "healthProbe", "port"),
    "log_level": ("logLevel",),
    "log_format": ("logFormat",),
}
"""Options that Karpenter's chart, too, has outside of ``settings``."""


@pytest.mark.parametrize(("name", "values"), [("default", NEEDED), ("full", FULL)])
def test_what_is_installed_is_known_to_the_letter(name: str, values: dict[str, Any]) -> None:
    file = GOLDEN / f"{name}.yaml"

    text = rendered_text(values)

    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), "right? then again with UPDATE_GOLDEN=1"


@pytest.mark.parametrize(
    ("chart", "values"), [(CHART, NEEDED), (CHART, FULL), (CRDS, {})], ids=["least", "full", "crds"]
)
def test_helm_finds_nothing_to_complain_about(chart: Path, values: dict[str, Any]) -> None:
    told = helm("lint", "--strict", chart, values=merged(NEEDED, values) if values else {})

    assert "0 chart(s) failed" in told


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield what is said in values, and where; lists count as one."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    else:
        yield ".".join(path), value


def words(value: Any) -> Iterator[str]:
    """Yield every text and number in a value."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from words(one)
    elif not isinstance(value, bool) and value is not None:
        yield str(value)


def test_every_value_has_an_effect() -> None:
    """The full values differ from the defaults everywhere, and all of them are seen again."""
    usual = dict(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    full, text = dict(leaves(FULL)), (GOLDEN / "full.yaml").read_text()

    said_again = {path for path, value in full.items() if usual.get(path, ...) == value}
    unseen = {path for path, value in full.items() if not all(one in text for one in words(value))}

    assert said_again == set()
    # A digest goes before a tag.
    assert unseen == {"controller.image.tag"}


@pytest.mark.parametrize(
    ("values", "told"),
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
        ({"serviceAccount": {"annotations": {"a": True}}}, "got boolean, want string"),
        ({"terminationGracePeriodSeconds": 1}, "at '/terminationGracePeriodSeconds'"),
    ],
)
def test_a_mistaken_value_is_refused_by_helm(values: dict[str, Any], told: str) -> None:
    done = try_helm("template", "dovetail", CHART, values=merged(NEEDED, values))

    assert done.returncode != 0
    assert told in done.stderr


def test_a_values_file_for_karpenters_chart_is_taken_as_it_is() -> None:
    """All that such a file usually says, at Karpenter's own defaults."""
    theirs = yaml.safe_load((GOLDEN / "karpenters-values.yaml").read_text())

    objects = rendered(**merged(theirs, NEEDED))

    (container,) = only(objects, "Deployment", name="karpenter")["spec"]["template"]["spec"][
        "containers"
    ]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert told["RESERVED_ENIS"] == "0"
    assert told["INTERRUPTION_QUEUE"] == "demo"


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"eksControlPlane": True}},
        {"settings": {"ignoreDRARequests": False}},
        {"settings": {"awsFeatureGates": {"nodeClassCEL": True}}},
        {"settings": {"amiRefreshInterval": "5m"}},
        {"logOutputPaths": ["/var/log/karpenter"]},
    ],
)
def test_what_karpenter_can_and_we_cannot_is_refused_rather_than_ignored(
    values: dict[str, Any],
) -> None:
    done = try_helm("template", "dovetail", CHART, values=merged(NEEDED, values))

    assert done.returncode != 0
    assert "value must be" in done.stderr


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"settings": {"clusterName": ""}}, "settings.clusterName is needed"),
        ({"controller": {"image": {"repository": ""}}}, "controller.image.repository"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed"),
    ],
)
def test_what_nobody_can_guess_must_be_given(values: dict[str, Any], told: str) -> None:
    done = try_helm("template", "dovetail", CHART, values=merged(NEEDED, values))

    assert done.returncode != 0
    assert told in done.stderr


def environment(**values: Any) -> dict[str, str]:
    (container, *_) = only(
        rendered(**values), "Deployment", name="nodes" if values else "dovetail"
    )["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def variables() -> dict[str, str]:
    """Return each option's variable: what the chart can set."""
    found = {}
    for one in run.params:
        if isinstance(one, click.Option) and one.envvar and one.name:
            found[one.name] = one.envvar if isinstance(one.envvar, str) else one.envvar[0]
    return found


def for_charts() -> set[str]:
    """Return the options that a chart should have."""
    return {
        one.name
        for one in run.params
        if one.name and not one.name.startswith("virtual") and one.name not in NOT_FOR_CHARTS
    }


def test_every_option_of_the_command_is_a_value_or_has_a_reason_not_to_be() -> None:
    given = environment(**FULL)

    assert {name for name in for_charts() if variables()[name] not in given} == set()


def test_every_variable_that_the_chart_sets_is_an_option_of_the_command() -> None:
    own = {one["name"] for one in FULL["controller"]["env"]}

    assert set(environment(**FULL)) - own - set(variables().values()) == set()


def test_every_setting_is_named_after_its_option() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    options = {name.replace("_", "") for name in for_charts() - set(ELSEWHERE)}

    assert {name.lower() for name in values["settings"]} == options
    for path in ELSEWHERE.values():
        here: Any = values
        for part in path:
            here = here[part]
        assert here


def test_the_command_takes_what_the_chart_says() -> None:
    for values in ({}, FULL):
        given = environment(**values)
        options = {variable: name for name, variable in variables().items()}

        context = run.make_context("run", [], auto_envvar_prefix=None, **_from(given, options))

        assert context.params["cluster_name"] == "demo"
        for variable, text in given.items():
            if variable in options and text in ("true", "false"):
                assert context.params[options[variable]] is (text == "true")


def _from(given: dict[str, str], options: dict[str, str]) -> dict[str, Any]:
    """Return the arguments that have click take these texts as if they had been typed."""
    return {"default_map": {options[one]: text for one, text in given.items() if one in options}}


def test_defaults_of_the_chart_are_those_of_the_command() -> None:
    given = environment()
    options = {variable: name for name, variable in variables().items()}
    by_chart = run.make_context("run", [], **_from(given, options)).params
    by_command = run.make_context("run", ["--cluster-name", "demo"]).params

    differing = {name for name, value in by_chart.items() if value != by_command[name]}

    # In a pod it must be found from outside, and the lease is where the release is.
    assert differing == {"bind_address", "leader_election_namespace"}


def test_the_pod_runs_as_nobody_and_can_change_nothing_on_its_machine() -> None:
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


def test_it_stays_off_nodes_that_it_could_take_away() -> None:
    spec = only(rendered(), "Deployment")["spec"]["template"]["spec"]

    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
    ]
    assert spec["priorityClassName"] == "system-cluster-critical"


def test_a_role_for_the_service_account_keeps_the_regional_endpoints() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/dovetail"}

    account = only(rendered(serviceAccount={"annotations": role}), "ServiceAccount")

    assert account["metadata"]["annotations"] == {
        **role,
        "eks.amazonaws.com/sts-regional-endpoints": "true",
    }


def test_the_pods_selector_does_not_change_with_values_that_may() -> None:
    plain = only(rendered(), "Deployment")
    labelled = only(rendered(additionalLabels={"a": "b"}, podLabels={"c": "d"}), "Deployment")

    assert plain["spec"]["selector"] == labelled["spec"]["selector"]


def test_the_image_is_the_charts_version_unless_said_otherwise() -> None:
    def image(**wanted: str) -> str:
        spec = only(rendered(controller={"image": wanted}), "Deployment")["spec"]["template"][
            "spec"
        ]
        return str(spec["containers"][0]["image"])

    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    digest = f"sha256:{'0' * 64}"
    assert image() == f"registry.example/dovetail:{version}"
    assert image(tag="edge") == "registry.example/dovetail:edge"
    assert image(tag="edge", digest=digest) == f"registry.example/dovetail@{digest}"
