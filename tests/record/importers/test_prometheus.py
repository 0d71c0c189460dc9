"""Series of kube-state-metrics in a real Prometheus become a trace."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.trace.model import Delete, Scale, Set, Tasks, Template
from dovetail.trace.reader import load_trace
from tests.record.objects import START
from tests.support.debian_package import debian_program

BEGIN = int(START.timestamp())
HOUR = 3600
LABELS = 'instance="10.0.0.9:8080",job="kube-state-metrics"'
REPLICAS = [
    ('instance="10.0.0.1:8080",job="replicas"', 0, 2400),
    ('instance="10.0.0.2:8080",job="replicas"', 0, 1200),
    ('instance="10.0.0.3:8080",job="replicas"', 1230, HOUR),
]
"""Two replicas of kube-state-metrics: the first ends, the second is restarted under another address."""
OWN_LABELS = 'job="own",namespace="monitoring",pod="kube-state-metrics-0",container="metrics"'
"""Of a scrape without honor_labels."""


def series(metric: str, labels: str, values: list[tuple[int, float]], scrape: str = LABELS) -> list[str]:
    return [f"{metric}{{{scrape},{labels}}} {value} {BEGIN + at}" for at, value in values]


def steady(value: float, begin: int = 0, end: int = HOUR) -> list[tuple[int, float]]:
    return [(at, value) for at in range(begin, end + 1, 30)]


def exposition() -> str:
    """Return an hour of kube-state-metrics in OpenMetrics: a Deployment, a short one, and a Job."""
    web = 'namespace="shop",deployment="web"'
    replicas = [(at, 3.0 if at < 1200 else 8.0) for at in range(0, HOUR + 1, 30)]
    pod = 'namespace="shop",pod="web-7d9-x2x9c",uid="u1"'
    requests = f'{pod},container="main",node="ip-10-0-0-7"'
    job = 'namespace="batch",pod="report-29600001-abcde",uid="u2"'
    metrics = {
        "kube_deployment_spec_replicas": [
            *series("kube_deployment_spec_replicas", web, replicas),
            *series("kube_deployment_spec_replicas", 'namespace="shop",deployment="gone"', steady(1, 0, 600)),
        ],
        "kube_pod_container_resource_requests": [
            *series(
                "kube_pod_container_resource_requests", f'{requests},resource="cpu",unit="core"', steady(0.25)
            ),
            *series(
                "kube_pod_container_resource_requests",
                f'{requests},resource="memory",unit="byte"',
                steady(536870912),
            ),
        ],
        "kube_pod_owner": [
            *series(
                "kube_pod_owner",
                f'{pod},owner_kind="ReplicaSet",owner_name="web-7d9",owner_is_controller="true"',
                steady(1),
            ),
            *series(
                "kube_pod_owner",
                f'{job},owner_kind="Job",owner_name="report-29600001",owner_is_controller="true"',
                steady(1, 900, 1500),
            ),
        ],
        "kube_replicaset_owner": series(
            "kube_replicaset_owner",
            'namespace="shop",replicaset="web-7d9",owner_kind="Deployment",owner_name="web"',
            steady(1),
        ),
        "kube_pod_start_time": [
            *series("kube_pod_start_time", pod, steady(BEGIN - 5000)),
            *series("kube_pod_start_time", job, steady(BEGIN + 890, 900, 1500)),
        ],
        "kube_pod_completion_time": series(
            "kube_pod_completion_time", job, steady(BEGIN + 890 + 240, 1140, 1500)
        ),
    }
    for scrape, begin, end in REPLICAS:
        for metric, labels, value in (
            ("kube_deployment_spec_replicas", web, 3),
            ("kube_pod_start_time", job, BEGIN + 60),
            ("kube_pod_owner", f'{job},owner_kind="Job",owner_name="report-29600001"', 1),
        ):
            metrics[metric] += series(metric, labels, steady(value, begin, end), scrape)
    for metric, labels, value in (
        ("kube_deployment_spec_replicas", 'exported_namespace="shop",deployment="web"', 3),
        (
            "kube_pod_container_resource_requests",
            'exported_namespace="shop",exported_pod="task",exported_container="main",resource="cpu"',
            2,
        ),
        ("kube_pod_start_time", 'exported_namespace="shop",exported_pod="task"', BEGIN + 60),
    ):
        metrics[metric] += series(metric, labels, steady(value), OWN_LABELS)
    for cluster in ("prod", "test"):
        metrics["kube_deployment_spec_replicas"] += series(
            "kube_deployment_spec_replicas", web, steady(1), f'job="global",cluster="{cluster}"'
        )
    text = "".join(f"# TYPE {name} gauge\n" + "\n".join(lines) + "\n" for name, lines in metrics.items())
    return text + "# EOF\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with the hour above in its database."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "metrics.txt").write_text(exposition())
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    blocks = ["tsdb", "create-blocks-from", "openmetrics", folder / "metrics.txt", folder / "data"]
    subprocess.run(
        [debian_program("promtool", package="prometheus"), *blocks], check=True, capture_output=True
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            debian_program("prometheus", package="prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(f"http://{address}/-/ready", process)
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while True:
        assert process.poll() is None, "Prometheus has ended"
        try:
            with urllib.request.urlopen(url) as response:  # noqa: S310 - loopback
                if response.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < end, "Prometheus did not start"
        time.sleep(0.1)  # noqa: TID251


def run(url: str, output: Path, *, hours: float = 1, selector: str = "") -> Result:
    end = START + timedelta(hours=hours)
    times = ["--start", START.isoformat(), "--end", end.isoformat(), "--selector", selector]
    return CliRunner().invoke(cli, ["trace", "import", "prometheus", url, "-o", str(output), *times])


@pytest.mark.slow
def test_scale_requests_and_run_times_are_read_from_a_real_prometheus(server: str, tmp_path: Path) -> None:
    result = run(server, tmp_path / "t.zst", selector='job="kube-state-metrics"')

    assert result.exit_code == 0, result.output
    trace = load_trace(tmp_path / "t.zst")
    assert (trace.header.start, trace.seconds) == (START, HOUR)
    created = {event.object["metadata"]["name"]: event for event in trace.events if isinstance(event, Set)}
    assert sorted(created) == ["gone", "web"]
    assert created["web"].object["spec"]["replicas"] == 3
    (container,) = created["web"].object["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "main", "resources": {"requests": {"cpu": "250m", "memory": "536870912"}}}
    assert [(event.t, event.replicas) for event in trace.events if isinstance(event, Scale)] == [(1200, 8)]
    # Prometheus repeats a last sample for up to five minutes.
    (deleted,) = [event for event in trace.events if isinstance(event, Delete)]
    assert deleted.name == "gone"
    assert 600 < deleted.t <= 960
    (template,) = [event for event in trace.events if isinstance(event, Template)]
    assert (template.owner, template.workload) == ("Job", "report")
    assert [(event.t, event.seconds) for event in trace.events if isinstance(event, Tasks)] == [(890, 240)]
    assert "note: Prometheus has no series of kube_statefulset_replicas" in result.output


@pytest.mark.slow
def test_replicas_and_restarts_of_kube_state_metrics_neither_double_nor_end_anything(
    server: str, tmp_path: Path
) -> None:
    result = run(server, tmp_path / "t.zst", selector='job="replicas"')

    assert result.exit_code == 0, result.output
    changes = [event for event in load_trace(tmp_path / "t.zst").events if not isinstance(event, Template)]
    assert [(type(event), event.t) for event in changes] == [(Set, 0), (Tasks, 60)]


@pytest.mark.slow
def test_a_scrape_that_replaced_labels_is_read_by_the_exported_ones(server: str, tmp_path: Path) -> None:
    result = run(server, tmp_path / "t.zst", selector='job="own"')

    assert result.exit_code == 0, result.output
    created, template, _ = load_trace(tmp_path / "t.zst").events
    assert isinstance(created, Set)
    assert isinstance(template, Template)
    assert created.object["metadata"] == {"name": "web", "namespace": "shop"}
    (container,) = template.template["spec"]["containers"]
    assert (template.namespace, container["name"]) == ("shop", "main")
    assert container["resources"] == {"requests": {"cpu": "2000m"}}
    assert "without honor_labels; exported_container, exported_namespace, exported_pod" in result.output


@pytest.mark.slow
def test_what_follows_the_last_sample_is_unknown_and_nothing_is_deleted(server: str, tmp_path: Path) -> None:
    result = run(server, tmp_path / "t.zst", hours=2, selector='job="replicas"')

    assert result.exit_code == 0, result.output
    trace = load_trace(tmp_path / "t.zst")
    assert trace.seconds < HOUR + 360
    assert not [event for event in trace.events if isinstance(event, Delete)]
    assert "note: Prometheus has no samples after 2026-03-02T09:0" in result.output


@pytest.mark.slow
def test_series_of_several_clusters_are_not_mixed(server: str, tmp_path: Path) -> None:
    mixed = run(server, tmp_path / "t.zst", selector='job="global"')
    prod = run(server, tmp_path / "t.zst", selector='cluster="prod"')

    assert (mixed.exit_code, prod.exit_code) == (1, 0)
    assert "series of the clusters prod, test; choose one with --selector 'cluster=\"prod\"'" in mixed.output


@pytest.mark.slow
def test_what_prometheus_refuses_or_does_not_have_is_an_error(server: str, tmp_path: Path) -> None:
    wrong = run(server, tmp_path / "t.zst", selector="job=")
    empty = run(server, tmp_path / "t.zst", selector='job="other"')

    assert (wrong.exit_code, empty.exit_code) == (1, 1)
    assert "kube_deployment_spec_replicas: " in wrong.output
    assert "parse error" in wrong.output
    assert (
        "has no series of kube-state-metrics between 2026-03-02T08:00Z and 2026-03-02T09:00Z" in empty.output
    )
    assert not (tmp_path / "t.zst").exists()


def test_a_server_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    absent = run("http://127.0.0.1:1", tmp_path / "t.zst")
    nonsense = run("ftp://prometheus", tmp_path / "t.zst")

    assert (absent.exit_code, nonsense.exit_code) == (1, 1)
    assert "error: http://127.0.0.1:1 does not answer: " in absent.output
    assert "error: ftp://prometheus is not the URL of a Prometheus" in nonsense.output
