"""Settings of all tests."""

import pytest
from hypothesis import HealthCheck, settings

# Time says how busy the machine is, not whether a law holds; bench/ measures speed.
settings.register_profile("dovetail", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dovetail")

pytest_plugins = ["tests.live.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        help="use the cluster of this file for tests marked live, not one of our own",
    )
