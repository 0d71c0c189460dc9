"""Run the AWS launch path under chaos in virtual time, and print the figures.

20 % of AWS calls are throttled, 10 % of the others take effect but their response is
lost, 5 % of offerings have no capacity, and the process is killed every 30 s. The exit code is 1 if an
instance was launched twice or leaked, or if anything else did not hold.
"""

import argparse
import json
import os
import sys
import time
from datetime import timedelta

import msgspec

from tests.support.aws.credentials import FAKE_CREDENTIALS
from tests.support.chaos.run import run_chaos


def main(arguments: list[str] | None = None) -> int:
    """Run, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos_aws", description=__doc__)
    parser.add_argument("--hours", type=float, default=10, help="simulated time with faults (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the run (default: 1)")
    options = parser.parse_args(arguments)
    os.environ.update(FAKE_CREDENTIALS)
    started = time.process_time()
    report = run_chaos(
        timedelta(hours=options.hours),
        seed=options.seed,
        progress=lambda text: print(text, file=sys.stderr, flush=True),
    )
    figures = {"seed": options.seed, **msgspec.to_builtins(report)}
    figures["cpu_seconds"] = round(time.process_time() - started, 1)
    print(json.dumps(figures, indent=2))
    return 1 if report.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
