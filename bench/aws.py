"""Measure the AWS adapter: moto is the AWS, or an EC2 that does as it is told.

One JSON line a case. ``python -m bench.aws`` runs all cases.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

from tests.aws.buying import a_site, bought, claims
from tests.aws.ec2 import FAKE_CREDENTIALS
from tests.aws.lives import a_life
from tests.aws.operating import Operation
from tests.aws.pages import Pages
from tests.aws.storms import MANY, send_all, take_all
from tests.aws.test_end_to_end import interruption, play
from tests.support.moto.process import AwsProcess
from tests.support.moto.server import moto_aws


def launches() -> dict[str, Any]:
    """Launch a hundred claims that are alike."""
    with moto_aws() as moto:
        process = AwsProcess(a_site(moto))
        began = time.perf_counter()
        machines = bought(process, claims(100))
        seconds = time.perf_counter() - began
        process.stop()
        calls = moto.door.calls["CreateFleet"]
    return {"claims": len(machines), "create_fleet_calls": calls, "seconds": round(seconds, 3)}


def warnings() -> dict[str, Any]:
    """Act on a thousand spot interruptions: claims deleted, messages removed."""
    with moto_aws() as moto:
        sqs = send_all(moto.url)
        began = time.perf_counter()
        work = asyncio.run(take_all(moto.url))
        seconds = time.perf_counter() - began
        sqs.close()
    return {"messages": MANY, "seconds": round(seconds, 3), "cpu_seconds": round(work, 3)}


def interrupted() -> dict[str, Any]:
    """Take a spot instance back: claim deleted, node cordoned, replacement asked for."""
    took: list[float] = []

    async def story(operation: Operation) -> None:
        took.append(await interruption(operation))

    with moto_aws() as moto:
        play(moto, story)
    return {"seconds": round(took[0], 3)}


def catalogue() -> dict[str, Any]:
    """Read a whole catalogue from what EC2 sends."""
    with moto_aws() as moto:
        pages = Pages(moto.url)
        began = time.thread_time()
        machines = pages.read()
        seconds = time.thread_time() - began
    return {"types": len(machines), "cpu_seconds": round(seconds, 3)}


def machines() -> dict[str, Any]:
    """Buy, list, look at and give back machines; four times as many for comparison."""
    asyncio.run(a_life(100))
    few, _ = asyncio.run(a_life(1250))
    many, calls = asyncio.run(a_life(5000))
    return {
        "machines": 5000,
        "calls": calls,
        "cpu_seconds": round(many, 3),
        "cpu_seconds_for_a_quarter": round(few, 3),
    }


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "launches": launches,
    "warnings": warnings,
    "interruption": interrupted,
    "catalogue": catalogue,
    "machines": machines,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.aws", description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), help="only this one")
    chosen = parser.parse_args(arguments)
    os.environ.update(FAKE_CREDENTIALS)
    for name, measure in CASES.items():
        if chosen.case in (None, name):
            print(json.dumps({"case": name, **measure()}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
