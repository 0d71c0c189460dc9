"""Thousands of instances need few calls; bench/aws.py measures the time."""

import asyncio

from tests.support.aws.instance_lifecycles import run_lifecycles


def test_a_thousand_instances_share_calls() -> None:
    _, calls = asyncio.run(run_lifecycles(1000))

    assert calls < 40
