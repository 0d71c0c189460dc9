"""Attack real replicas on a real control plane, and print the figures.

Two replicas of `dovetail run` manage the nodes of a virtual account while Deployments scale
up and down. They are killed and paused, the API server and etcd are restarted and
paused, hostile objects are created, and the CRDs are deleted. The exit code is 1 if an invariant
or a time limit did not hold.
"""

import argparse
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.live.chaos.planted_violations import PLANTED
from tests.live.chaos.run import ATTACKS, ChaosSettings, run_chaos


def main(arguments: list[str] | None = None) -> int:
    """Run, print the table, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=5, help="as many rounds as fit, at least one (default: 5)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of attacks and load (default: 1)")
    parser.add_argument("--slack", type=float, default=1, help="factor of the time limits (default: 1)")
    parser.add_argument("--leader-kills", type=int, default=3, help="per lease and round (default: 3)")
    parser.add_argument(
        "--attack", action="append", choices=ATTACKS, help="only this one; repeatable (default: all)"
    )
    parser.add_argument("--json", type=Path, help="write the result to this file, too")
    parser.add_argument("--folder", type=Path, help="keep logs, audit log included, in this folder")
    parser.add_argument(
        "--plant", action="append", default=[], choices=sorted(PLANTED),
        help="cause a violation that the run must report",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    settings = ChaosSettings(
        seed=options.seed,
        minutes=options.minutes,
        slack=options.slack,
        leader_kills=options.leader_kills,
        attacks=frozenset(options.attack or ATTACKS),
        planted=tuple(options.plant),
    )
    # Stops all processes on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with TemporaryDirectory(prefix="dovetail-chaos-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        report = run_chaos(folder, settings, lambda text: print(text, file=sys.stderr, flush=True))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    print(report.table())
    print(f"\n{report.rounds} rounds in {report.minutes} minutes, seed {report.seed}, slack {report.slack:g};"
          f" load average {report.load_average[0]} to {report.load_average[1]}")  # fmt: skip
    for figure in report.broken:
        print(f"BROKEN: {figure.attack}: {figure.name}: {figure.values}", file=sys.stderr)
        for detail in figure.details:
            print(f"  {detail}", file=sys.stderr)
    return 1 if report.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
