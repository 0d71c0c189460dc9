"""How long ``dovetail cluster plan`` and ``render`` take, as a user waits for them.

Run as ``python -m bench.cluster``: one JSON line for each example. AWS is moto, extended, on
loopback; the account has only what the example says is there at the first plan, and holds
the cluster at the second.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import helmprogram
from tests.support.clusters import EXAMPLES
from tests.support.moto.account import an_account

_DOVETAIL = (sys.executable, "-m", "dovetail")


def main() -> None:
    """Measure every example."""
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"case": example.stem, **_measured(example.stem, Path(folder))}))


def _measured(example: str, folder: Path) -> dict[str, float]:
    with an_account() as account:
        account.eks.instant = True
        file = folder / "cluster.yaml"
        file.write_text(account.written(example), encoding="utf-8")
        helm = folder / "bin" / "helm"
        helm.parent.mkdir()
        helm.write_text(f'#!/bin/sh\nexec {sys.executable} -P {helmprogram.__file__} "$@"\n')
        helm.chmod(0o755)
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": account.moto.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PATH": f"{helm.parent}:{os.environ['PATH']}",
        }

        def seconds(*words: str, code: int = 0) -> float:
            began = time.perf_counter()
            done = subprocess.run(  # noqa: S603 - our own command
                [*_DOVETAIL, "cluster", *words, "-f", str(file)],
                env=environment,
                capture_output=True,
                check=False,
                text=True,
            )
            if done.returncode != code:
                sys.exit(f"{words}: exit code {done.returncode}\n{done.stderr}")
            return round(time.perf_counter() - began, 2)

        seconds("plan", code=2)  # moto reads its own tables at the first question.
        return {
            "render_seconds": seconds("render", "-d", str(folder / "rendered")),
            "plan_seconds": seconds("plan", code=2),
            "apply_seconds": seconds("apply", "--yes"),
            "plan_again_seconds": seconds("plan"),
        }


if __name__ == "__main__":
    main()
