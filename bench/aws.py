"""Measure the AWS adapter against moto, or against a scripted EC2.

One JSON line per case. ``python -m bench.aws`` runs all cases.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

from tests.aws.test_end_to_end import interruption, run_scenario
from tests.support.aws.credentials import FAKE_CREDENTIALS
from tests.support.aws.instance_lifecycles import run_lifecycles
from tests.support.aws.interruption_bursts import MANY, send_all, take_all
from tests.support.aws.launches import an_account, claims, launched
from tests.support.aws.operator_process import OperatorProcess
from tests.support.aws.pages import Pages
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.server import moto_aws


def measure_launches() -> dict[str, Any]:
    """Launch a hundred identical claims."""
    with moto_aws() as moto:
        process = AwsProcess(an_account(moto))
        started = time.perf_counter()
        instances = launched(process, claims(100))
        seconds = time.perf_counter() - started
        process.stop()
        calls = moto.middleware.calls["CreateFleet"]
    return {"claims": len(instances), "create_fleet_calls": calls, "seconds": round(seconds, 3)}


def measure_interruption_queue() -> dict[str, Any]:
    """Handle a thousand spot interruptions: claims deleted, messages removed."""
    with moto_aws() as moto:
        sqs = send_all(moto.url)
        started = time.perf_counter()
        work = asyncio.run(take_all(moto.url))
        seconds = time.perf_counter() - started
        sqs.close()
    return {"messages": MANY, "seconds": round(seconds, 3), "cpu_seconds": round(work, 3)}


def measure_interruption() -> dict[str, Any]:
    """Interrupt a spot instance: claim deleted, node cordoned, replacement created."""
    durations: list[float] = []

    async def record_duration(process: OperatorProcess) -> None:
        durations.append(await interruption(process))

    with moto_aws() as moto:
        run_scenario(moto, record_duration)
    return {"seconds": round(durations[0], 3)}


def measure_catalog() -> dict[str, Any]:
    """Decode a whole catalog from EC2's responses."""
    with moto_aws() as moto:
        pages = Pages(moto.url)
        started = time.thread_time()
        instances = pages.read()
        seconds = time.thread_time() - started
    return {"types": len(instances), "cpu_seconds": round(seconds, 3)}


def measure_instances() -> dict[str, Any]:
    """Launch, list, get and terminate instances; a quarter of them for comparison."""
    asyncio.run(run_lifecycles(100))
    quarter, _ = asyncio.run(run_lifecycles(1250))
    full, calls = asyncio.run(run_lifecycles(5000))
    return {
        "instances": 5000,
        "calls": calls,
        "cpu_seconds": round(full, 3),
        "cpu_seconds_for_a_quarter": round(quarter, 3),
    }


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "launches": measure_launches,
    "warnings": measure_interruption_queue,
    "interruption": measure_interruption,
    "catalogue": measure_catalog,
    "instances": measure_instances,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the selected cases."""
    parser = argparse.ArgumentParser(prog="python -m bench.aws", description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), help="only this one")
    options = parser.parse_args(arguments)
    os.environ.update(FAKE_CREDENTIALS)
    for name, measure in CASES.items():
        if options.case in (None, name):
            print(json.dumps({"case": name, **measure()}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
