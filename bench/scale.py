"""Scale up at once on a real control plane, and print who took how long.

Deployments are created with all their pods. The API server's audit log has the times when
kube-scheduler marked each pod unschedulable, when a NodeClaim was created for it, and when it was
bound. The exit code is 1 if a pod was planned too late or twice, if more instances were launched
than planned, or if a pod was not bound.
"""

import argparse
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.live.chaos.scale import ScaleSettings, run_scale


def main(arguments: list[str] | None = None) -> int:
    """Run, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--pods", type=int, default=3_000, help="pods created at once (default: 3000)")
    parser.add_argument("--pods-per-node", type=int, default=10, help="on average (default: 10)")
    parser.add_argument(
        "--scheduler-qps", type=int, default=100, help="requests of kube-scheduler per second (default: 100)"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=5,
        help="seconds from the first sight of a marked pod to its plan (default: 5)",
    )
    parser.add_argument("--timeout", type=float, default=1800, help="seconds until all are bound")
    parser.add_argument("--json", type=Path, help="write the result to this file, too")
    parser.add_argument("--folder", type=Path, help="keep logs, audit log included, in this folder")
    options = parser.parse_args(arguments)
    settings = ScaleSettings(
        pods=options.pods,
        pods_per_node=options.pods_per_node,
        scheduler_qps=options.scheduler_qps,
        limit=options.limit,
        timeout=options.timeout,
    )
    # Stops all processes on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with TemporaryDirectory(prefix="dovetail-scale-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        report = run_scale(folder, settings, lambda text: print(text, file=sys.stderr, flush=True))
    text = msgspec.json.format(msgspec.json.encode(report), indent=2)
    if options.json:
        options.json.write_bytes(text + b"\n")
    print(text.decode())
    for violation in report.violations:
        print(f"BROKEN: {violation}", file=sys.stderr)
    return 1 if report.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
