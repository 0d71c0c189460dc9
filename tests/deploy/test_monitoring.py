"""Alerts, dashboards and monitors of the chart."""

import json
import re
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.utils import floatToGoString

from dovetail.aws.nodeclass.instance_profiles import RoleNotFoundError
from dovetail.observability.cluster_metrics import collect, format_gauges
from dovetail.ports.cloudprovider import CloudError, InstanceNotFoundError, InsufficientCapacityError
from dovetail.ports.metric_types import Histogram
from dovetail.ports.metrics import METRICS
from dovetail.state.cloudprovider import LAUNCH_FAILURE_REASONS, launch_failure_reason
from dovetail.state.cluster.cache import ClusterCache
from tests.observability.test_exposition import NOON
from tests.support.debian_package import debian_program
from tests.support.helm.charts import CHART, REQUIRED_VALUES, merged, only, rendered, try_helm

ROOT = Path(__file__).parents[2]
ALERTS = CHART / "files" / "alerts.yaml"
DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
OF_THE_LIBRARY = {"process_resident_memory_bytes", "process_cpu_seconds_total", "karpenter_build_info"}
"""Metrics of every process, which the guide does not list."""
_NAME = re.compile(r"\b(?:karpenter|dovetail|controller_runtime|leader_election|workqueue|process)_[a-z_]+")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_GROUPED = re.compile(r"\bby \(([a-z_, ]+)\)")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    texts = [rule["expr"] for rule in rules()]
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            texts += [target["expr"] for target in panel.get("targets", ())]
    return texts


def documented_metrics() -> dict[str, set[str]]:
    """Return the labels of each metric, from the guide, which a test holds to the code."""
    rows = re.findall(r"^\| `([a-z_]+)` \|(.*)\|$", (ROOT / "docs/guides/metrics.md").read_text(), re.M)
    return {name: set(re.findall(r"`([a-z_]+)`", cells)) for name, cells in rows}


def bucket_bounds() -> dict[str, set[str]]:
    """Return the values of the label ``le`` of each histogram."""
    return {
        metric.name: {floatToGoString(bound) for bound in (*metric.buckets, float("inf"))}
        for metric in METRICS
        if isinstance(metric, Histogram)
    }


def subclasses(error: type[Exception]) -> Iterator[type[Exception]]:
    for subclass in error.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def test_every_metric_and_label_of_an_expression_exists() -> None:
    labels = documented_metrics()
    for text in expressions():
        names = {
            re.sub(r"_(bucket|count|sum)$", "", name) if name not in labels else name
            for name in _NAME.findall(text)
        }
        assert names
        assert names <= labels.keys() | OF_THE_LIBRARY, text
        known = set().union(*(labels.get(name, set()) for name in names)) | {"le"}
        for group in _GROUPED.findall(text):
            assert set(group.replace(" ", "").split(",")) <= known, text


def test_every_alert_says_what_happened_and_has_a_chapter() -> None:
    guide = (ROOT / "docs/guides/alerts.md").read_text()

    assert len(rules()) >= 10
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert f"## {rule['alert']}\n" in guide


def test_promtool_accepts_the_alerts_and_each_fires_only_when_it_should(tmp_path: Path) -> None:
    promtool = debian_program("promtool", package="prometheus")
    cases = tmp_path / "alerts.yaml"
    text = (Path(__file__).parent / "alerts.yaml").read_text()
    cases.write_text(text.replace("RULES", str(ALERTS)))

    for arguments in (["check", "rules", ALERTS], ["test", "rules", cases]):
        done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    assert {rule["alert"] for rule in rules()} == set(re.findall(r"alertname=\"(\w+)\"", text))


def test_the_series_of_the_cases_have_labels_and_buckets_that_the_controller_reports() -> None:
    labels, buckets = documented_metrics(), bucket_bounds()
    cases = yaml.safe_load((Path(__file__).parent / "alerts.yaml").read_text())["tests"]
    series = {entry["series"] for case in cases for entry in case["input_series"]}

    for text in sorted(series):
        name, values = text.split("{")[0], dict(_LABEL.findall(text))
        if name.endswith("_bucket"):
            name = name.removesuffix("_bucket")
            assert values.pop("le") in buckets[name], text
        assert name in labels.keys() | OF_THE_LIBRARY, text
        assert values.keys() <= labels.get(name, set()) | {"instance"}, text


def test_only_missing_capacity_and_instances_are_no_failures_of_the_cloud() -> None:
    """Both are answers that controllers act on; every other error needs a user."""
    (rule,) = (rule for rule in rules() if rule["alert"] == "DovetailCloudCallsFail")
    (excluded,) = re.findall(r'error!~"([^"]+)"', rule["expr"])
    reasons = {launch_failure_reason(" ".join(words)) for words, _ in LAUNCH_FAILURE_REASONS}
    assert {"LaunchTemplateNotFound", "AMINotFound"} <= reasons

    names = reasons | {error.__name__ for error in (CloudError, RoleNotFoundError, *subclasses(CloudError))}

    silent = {name for name in names if re.fullmatch(excluded, name)}
    assert silent == {InsufficientCapacityError.__name__, InstanceNotFoundError.__name__}


def test_what_every_replica_reports_is_not_added_up() -> None:
    reported_by_all = format_gauges(collect(ClusterCache(), NOON), per_node=True).decode()
    names = re.findall(r"^# TYPE (\S+) gauge$", reported_by_all, re.M)

    for text in expressions():
        for name in names:
            for before in text.split(name)[:-1]:
                assert re.search(r"\b(max|min)( by \([a-z_, ]+\))? ?\($", before), text


def test_two_replicas_do_not_double_the_cost_on_the_dashboard(tmp_path: Path) -> None:
    promtool = debian_program("promtool", package="prometheus")
    panels = {panel["title"]: panel for panel in json.loads(DASHBOARDS[1].read_text())["panels"]}
    hour, month = (
        panels[title]["targets"][0]["expr"].replace("$nodepool", ".*")
        for title in ("Cost per hour", "Cost per month (730 h)")
    )
    case = {
        "interval": "1m",
        "input_series": [
            {
                "series": f'karpenter_nodepools_cost_total{{nodepool="{pool}",instance="{replica}"}}',
                "values": f"{cost}x5",
            }
            for replica in "ab"
            for pool, cost in (("x", 1.5), ("y", 2))
        ],
        "promql_expr_test": [
            {
                "expr": hour,
                "eval_time": "5m",
                "exp_samples": [
                    {"labels": '{nodepool="x"}', "value": 1.5},
                    {"labels": '{nodepool="y"}', "value": 2},
                ],
            },
            {"expr": month, "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 730 * 3.5}]},
        ],
    }
    cases = tmp_path / "dashboards.yaml"
    cases.write_text(yaml.safe_dump({"tests": [case]}))

    done = subprocess.run([promtool, "test", "rules", cases], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboards_are_those_that_the_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "grafana"))

    fleet, controller = script["FLEET"], script["CONTROLLER"]
    expected = {
        "dovetail-fleet.json": script["dashboard"]("dovetail-fleet", "Dovetail / Fleet", fleet),
        "dovetail-controller.json": script["dashboard"](
            "dovetail-controller", "Dovetail / Controller", controller
        ),
    }
    assert {path.name: json.loads(path.read_text()) for path in DASHBOARDS} == expected, "run make grafana"


@pytest.mark.slow
def test_the_rule_and_the_dashboards_contain_the_files() -> None:
    objects = rendered(prometheusRule={"enabled": True}, dashboards={"enabled": True})

    assert only(objects, "PrometheusRule")["spec"] == yaml.safe_load(ALERTS.read_text())
    data = only(objects, "ConfigMap", name="dovetail-dashboards")["data"]
    assert data == {path.name: path.read_text() for path in DASHBOARDS}


@pytest.mark.slow
def test_a_pod_monitor_scrapes_the_port_of_the_pods() -> None:
    objects = rendered(podMonitor={"enabled": True, "endpointConfig": {"interval": "15s"}})

    (endpoint,) = only(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "http-metrics", "path": "/metrics", "interval": "15s"}
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "http-metrics" in {port["name"] for port in container["ports"]}


@pytest.mark.slow
def test_two_monitors_at_once_are_rejected() -> None:
    values = {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}

    result = try_helm("template", "dovetail", CHART, values=merged(REQUIRED_VALUES, values))

    assert result.returncode != 0
    assert "scrape every replica twice" in result.stderr


@pytest.mark.slow
def test_the_network_policy_lets_only_metrics_in() -> None:
    objects = rendered(networkPolicy={"enabled": True})

    policy = only(objects, "NetworkPolicy")["spec"]
    pods = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= pods.items()
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
