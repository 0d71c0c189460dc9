"""Scale the application of examples/fargate.yaml from 4 pods to 100 and back.

A HorizontalPodAutoscaler of a real control plane follows the load; nodes are virtual. The result has
nodes, prices and durations.
"""

import argparse
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.live.chip import run_chip


def main(arguments: list[str] | None = None) -> int:
    """Run, and print one JSON object."""
    argparse.ArgumentParser(prog="python -m bench.chip", description=__doc__).parse_args(arguments)
    # Stops all processes on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with TemporaryDirectory(prefix="dovetail-chip-") as folder:
        report = run_chip(Path(folder), lambda text: print(text, file=sys.stderr, flush=True))
    print(msgspec.json.encode(report).decode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
