"""Thousands of machines take few calls; how long they take is measured in bench/aws.py."""

import asyncio

from tests.aws.lives import a_life


def test_a_thousand_machines_share_calls_from_the_first_to_the_last() -> None:
    _, calls = asyncio.run(a_life(1000))

    assert calls < 40
