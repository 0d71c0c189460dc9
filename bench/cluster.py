"""Measure ``dovetail cluster plan``, ``apply`` and ``render``, as processes.

Run as ``python -m bench.cluster``: one JSON line per example. AWS is moto, extended, on
loopback. At the first plan the account has only what the example expects; at the second
it has the cluster.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.eks.configs import EXAMPLES
from tests.support.helm import fake_program
from tests.support.moto.cluster_account import an_account

_DOVETAIL = (sys.executable, "-m", "dovetail")


def main() -> None:
    """Measure every example."""
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"case": example.stem, **_measure(example.stem, Path(folder))}))


def _measure(example: str, folder: Path) -> dict[str, float]:
    with an_account() as account:
        account.eks.instant = True
        file = folder / "cluster.yaml"
        file.write_text(account.example_text(example), encoding="utf-8")
        helm = folder / "bin" / "helm"
        helm.parent.mkdir()
        helm.write_text(f'#!/bin/sh\nexec {sys.executable} -P {fake_program.__file__} "$@"\n')
        helm.chmod(0o755)
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": account.moto.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PATH": f"{helm.parent}:{os.environ['PATH']}",
        }

        def measure_command(*arguments: str, code: int = 0) -> float:
            started = time.perf_counter()
            completed = subprocess.run(  # noqa: S603 - our own command
                [*_DOVETAIL, "cluster", *arguments, "-f", str(file)],
                env=environment,
                capture_output=True,
                check=False,
                text=True,
            )
            if completed.returncode != code:
                sys.exit(f"{arguments}: exit code {completed.returncode}\n{completed.stderr}")
            return round(time.perf_counter() - started, 2)

        measure_command("plan", code=2)  # moto loads its tables at the first request.
        return {
            "render_seconds": measure_command("render", "-d", str(folder / "rendered")),
            "plan_seconds": measure_command("plan", code=2),
            "apply_seconds": measure_command("apply", "--yes"),
            "plan_again_seconds": measure_command("plan"),
        }


if __name__ == "__main__":
    main()
