"""Run some 50 nodes for 30 simulated days of faults, and print the figures.

Load that follows the day, spot interruptions, missing capacity, failing calls of EC2 and the
API server, nodes that fail, new AMIs, changed NodePools, and controllers that are killed. The
exit code is 1 if an invariant was violated after any event, or if memory grew.
"""

import argparse
import json
import sys
import time
from datetime import timedelta

import msgspec

from dovetail.host.gc import reduce_collections
from tests.support.soak.run import run_soak


def main(arguments: list[str] | None = None) -> int:
    """Run, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--days", type=float, default=30, help="simulated days (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the run (default: 1)")
    parser.add_argument("--load", type=float, default=1.0, help="share of the usual pods (default: 1)")
    options = parser.parse_args(arguments)
    reduce_collections()  # As in every command.
    started = time.process_time()

    def progress(text: str) -> None:
        print(f"{time.process_time() - started:.0f} s CPU, {text}", file=sys.stderr, flush=True)

    report = run_soak(timedelta(days=options.days), seed=options.seed, load=options.load, progress=progress)
    figures = {**msgspec.to_builtins(report), "cpu_seconds": round(time.process_time() - started, 1)}
    print(json.dumps(figures, indent=2))
    return 1 if report.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
