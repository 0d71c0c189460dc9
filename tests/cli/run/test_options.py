"""What ``dovetail run`` takes when little is said, and who goes first when much is."""

from datetime import timedelta
from typing import Any

import click
import pytest

from dovetail.cli.run.command import run
from dovetail.model.settings import Gates


def taken(*options: str) -> dict[str, Any]:
    return run.make_context("run", ["--cluster-name", "demo", *options]).params


@pytest.fixture(autouse=True)
def _nothing_said_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in run.params:
        if isinstance(option.envvar, str):
            monkeypatch.delenv(option.envvar, raising=False)


def test_defaults_are_karpenters() -> None:
    """OP1."""
    wanted = {
        "metrics_port": 8080,
        "health_probe_port": 8081,
        "kube_client_qps": 200,
        "kube_client_burst": 300,
        "disable_leader_election": False,
        "disable_cluster_state_observability": False,
        "leader_election_name": "karpenter-leader-election",
        "leader_election_namespace": "",
        "log_level": "info",
        "batch_max_duration": timedelta(seconds=10),
        "batch_idle_duration": timedelta(seconds=1),
        "preference_policy": "Respect",
        "min_values_policy": "Strict",
        "vm_memory_overhead_percent": 0.075,
        "reserved_enis": 0,
        "interruption_queue": "",
        "isolated_vpc": False,
        "disable_dry_run": False,
        "enable_zonal_shift": False,
        "feature_gates": Gates(),
    }

    assert wanted.items() <= taken().items()


def test_an_option_goes_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """OP2."""
    monkeypatch.setenv("METRICS_PORT", "1111")
    monkeypatch.setenv("HEALTH_PROBE_PORT", "2222")

    found = taken("--metrics-port=3333")

    assert (found["metrics_port"], found["health_probe_port"]) == (3333, 2222)


@pytest.mark.parametrize("given", ["NodeRepair=true", " NodeRepair=true , "])
def test_gates_that_are_not_named_stay_as_they_are(given: str) -> None:
    """OP3."""
    assert taken(f"--feature-gates={given}")["feature_gates"] == Gates(NodeRepair=True)


@pytest.mark.parametrize(
    "option", ["--log-level=loud", "--metrics-port=65536", "--log-format=xml", "--metrics-port=-1"]
)
def test_what_cannot_be_is_refused(option: str) -> None:
    """OP4."""
    with pytest.raises(click.BadParameter):
        taken(option)
