"""Charts in the shape of popular public ones install into a sandbox with helm."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_sandbox import Running
from tests.support.helm.binary import helm_binary

CHARTS = Path(__file__).parents[1] / "simulator/rest/charts"
OWN_CHARTS = Path(__file__).parents[2] / "deploy/charts"


@pytest.mark.slow
def test_helm_installs_tests_upgrades_and_uninstalls_five_charts(tmp_path: Path) -> None:
    sandbox = Running(tmp_path, "--speed", "20").wait_until_ready()
    environment = {**os.environ, "KUBECONFIG": str(sandbox.config), "HOME": str(tmp_path)}

    def helm(*arguments: str) -> str:
        command = [str(helm_binary()), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        for chart in sorted(CHARTS.iterdir()):
            place = ("-n", chart.name)
            helm("install", chart.name, str(chart), *place, "--create-namespace", "--wait", "--timeout=90s")
        own = ("--set=settings.clusterName=demo,controller.image.repository=dovetail,replicas=1", "--wait")
        helm("install", "dovetail-crd", str(OWN_CHARTS / "dovetail-crd"), "-n", "kube-system")
        helm("install", "dovetail", str(OWN_CHARTS / "dovetail"), "-n", "kube-system", *own)
        helm("test", "web", "-n", "web")
        helm("upgrade", "web", str(CHARTS / "web"), "-n", "web", "--set=cpu=300m", "--wait", "--timeout=90s")
        pods = sandbox.items("pods", "-A")
        monitors = sandbox.items("servicemonitors", "-A")
        claims = sandbox.items("pvc", "-n", "cache")
        helm("uninstall", "monitoring", "-n", "monitoring", "--wait")
    finally:
        sandbox.stop()

    assert {pod["status"]["phase"] for pod in pods} <= {"Running", "Succeeded"}
    assert [monitor["metadata"]["name"] for monitor in monitors] == ["monitoring-server"]
    assert [claim["status"]["phase"] for claim in claims] == ["Bound"] * 4
    web = [pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == "web"]
    assert len(web) >= 2  # The autoscaler's minimum; the Deployment has no replicas.
