"""Options of ``dovetail run``: defaults, precedence and validation."""

from datetime import timedelta
from typing import Any

import click
import pytest

from dovetail.cli.run.command import run
from dovetail.model.settings import FeatureGates


def parse(*options: str) -> dict[str, Any]:
    return run.make_context("run", ["--cluster-name", "demo", *options]).params


@pytest.fixture(autouse=True)
def _without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in run.params:
        if isinstance(option.envvar, str):
            monkeypatch.delenv(option.envvar, raising=False)


def test_node_cost_is_that_of_the_node_class_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse()["node_cost"] is None
    assert parse()["fewer_nodes_tolerance"] == 0.02

    monkeypatch.setenv("NODE_COST", "0.0205")
    monkeypatch.setenv("FEWER_NODES_TOLERANCE", "0")
    assert parse()["node_cost"] == 0.0205
    assert parse()["fewer_nodes_tolerance"] == 0
    assert parse("--node-cost", "0.03")["node_cost"] == 0.03


def test_defaults_are_karpenters() -> None:
    """OP1."""
    defaults = {
        "metrics_port": 8080,
        "health_probe_port": 8081,
        "kube_client_qps": 200,
        "kube_client_burst": 300,
        "disable_leader_election": False,
        "disable_cluster_state_observability": False,
        "leader_election_name": "karpenter-leader-election",
        "leader_election_namespace": "",
        "leader_election_lease_seconds": 15,
        "log_level": "info",
        "batch_max_duration": timedelta(seconds=3),
        "batch_idle_duration": timedelta(seconds=1),
        "scheduling_timeout": timedelta(seconds=10),
        "preference_policy": "Respect",
        "min_values_policy": "Strict",
        "burstable": "baseline",
        "min_node_memory": 128 * 2**20,
        "vm_memory_overhead_percent": 0.075,
        "reserved_enis": 0,
        "interruption_queue": "",
        "isolated_vpc": False,
        "disable_dry_run": False,
        "enable_zonal_shift": False,
        "feature_gates": FeatureGates(),
    }

    assert defaults.items() <= parse().items()


def test_option_takes_precedence_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """OP2."""
    monkeypatch.setenv("METRICS_PORT", "1111")
    monkeypatch.setenv("HEALTH_PROBE_PORT", "2222")

    params = parse("--metrics-port=3333")

    assert (params["metrics_port"], params["health_probe_port"]) == (3333, 2222)


@pytest.mark.parametrize("given", ["NodeRepair=true", " NodeRepair=true , "])
def test_gates_that_are_not_named_keep_their_defaults(given: str) -> None:
    """OP3."""
    assert parse(f"--feature-gates={given}")["feature_gates"] == FeatureGates(NodeRepair=True)


def test_feature_gates_of_aws_have_karpenters_own_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_FEATURE_GATES", "NodeClassCEL=true,GateOfTomorrow=true")

    assert parse()["aws_feature_gates"].NodeClassCEL
    assert not parse()["feature_gates"].NodeClassCEL


@pytest.mark.parametrize(
    "option", ["--log-level=loud", "--metrics-port=65536", "--log-format=xml", "--metrics-port=-1"]
)
def test_invalid_option_value_is_rejected(option: str) -> None:
    """OP4."""
    with pytest.raises(click.BadParameter):
        parse(option)
