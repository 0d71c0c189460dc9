"""Alerts, dashboards and monitors of the chart."""

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.debian_package import debian_program
from tests.support.helm.charts import CHART, REQUIRED_VALUES, merged, only, rendered, try_helm

ROOT = Path(__file__).parents[2]
ALERTS = CHART / "files" / "alerts.yaml"
DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
OF_THE_LIBRARY = {"process_resident_memory_bytes", "process_cpu_seconds_total", "karpenter_build_info"}
"""Metrics of every process, which the guide does not list."""
_NAME = re.compile(r"\b(?:karpenter|dovetail|controller_runtime|leader_election|workqueue|process)_[a-z_]+")
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
