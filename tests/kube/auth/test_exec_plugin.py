"""Programs that say who we are, on their worse days."""

import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dovetail.kube.auth.credentials import CredentialsError
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from tests.kube.api_server import connected
from tests.kube.auth.test_kubeconfig import Clock, a_plugin, result, token_of, written

COUNTS = """\
import json, pathlib
count = pathlib.Path(__file__).with_name("count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(json.dumps({"status": {"token": str(number), "expirationTimestamp": "%s"}}))
"""


def asked_at(access: RestConfig, clock: Clock, *seconds: float) -> list[str]:
    """Return the tokens that there are so long after the start."""
    start = clock.moment

    async def ask() -> list[str]:
        tokens = []
        for second in seconds:
            clock.moment = start + timedelta(seconds=second)
            tokens.append(await access.credentials.token())
        return tokens

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("ends", "tokens"),
    [
        ("2025-12-31T00:00:00Z", ["1", "1", "2"]),  # It has ended before it came.
        ("2026-01-01T00:00:20Z", ["1", "1", "1"]),  # It does not last as long as the margin.
    ],
)
def test_a_plugin_with_a_short_token_does_not_run_for_every_request(
    tmp_path: Path, ends: str, tokens: list[str]
) -> None:
    clock = Clock()
    file = written(tmp_path / "config", {"exec": a_plugin(tmp_path, COUNTS % ends)})
    access = load_rest_config(str(file), environ={"PATH": "/usr/bin"}, clock=clock)

    assert asked_at(access, clock, 0, 0.5, 2) == tokens


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"token": "a", "expirationTimestamp": "2026-01-01T00:00:00"}, "no ExecCredential"),
        ({"token": "a", "expirationTimestamp": "tomorrow"}, "no ExecCredential"),
        ({"token": "a\nHost: elsewhere"}, "an invalid token"),
        ({"token": 5}, "no ExecCredential"),
        (["token"], "no ExecCredential"),
    ],
)
def test_invalid_plugin_output_is_an_error(tmp_path: Path, status: Any, text: str) -> None:
    body = f"print({json.dumps({'status': status})!r})"
    access = result(written(tmp_path / "config", {"exec": a_plugin(tmp_path, body)}))

    with pytest.raises(CredentialsError, match=text):
        token_of(access)


def test_a_trailing_newline_is_not_part_of_a_token(tmp_path: Path) -> None:
    body = """print('{"status": {"token": "abc\\\\n"}}')"""
    access = result(written(tmp_path / "config", {"exec": a_plugin(tmp_path, body)}))

    assert token_of(access) == "abc"


HANGS = """\
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
here = pathlib.Path(__file__)
here.with_name("new").write_text(f"{os.getpid()} {child.pid}")
here.with_name("new").rename(here.with_name("pids"))
time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that was not waited for is a zombie.
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes as Linux shows them")
def test_a_plugin_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    access = result(written(tmp_path / "config", {"exec": a_plugin(tmp_path, HANGS)}))
    pids = tmp_path / "pids"

    async def give_up() -> None:
        asking = asyncio.ensure_future(access.credentials.token())
        while not pids.exists():
            await asyncio.sleep(0.02)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        for _ in range(250):
            if not any(map(is_running, started())):
                return
            await asyncio.sleep(0.02)

    def started() -> list[int]:
        return [int(entry) for entry in pids.read_text().split()]

    asyncio.run(give_up())

    assert [entry for entry in started() if is_running(entry)] == []


PRINTS = """\
import json, os
spec = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]
print(json.dumps({"status": {"token": json.dumps(spec)}}))
"""


def test_a_plugin_gets_cluster_info_if_configured(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    file = written(
        tmp_path / "config",
        {"exec": {**a_plugin(tmp_path, PRINTS), "provideClusterInfo": True}},
        extensions=[{"name": "other", "extension": 1}, extension],
        **{"tls-server-name": "kubernetes"},
    )

    message = json.loads(token_of(result(file)))

    assert message == {
        "interactive": False,
        "cluster": {
            "server": "https://example.test:6443/",
            "tls-server-name": "kubernetes",
            "config": {"audience": "a"},
        },
    }


def test_other_kubernetes_versions_are_rejected(tmp_path: Path) -> None:
    access = result(written(tmp_path / "config", {"exec": a_plugin(tmp_path, PRINTS)}))

    assert json.loads(token_of(access)) == {"interactive": False}


def test_a_plugin_that_hangs_is_named_instead_of_the_server(tmp_path: Path) -> None:
    plugin = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    access = result(written(tmp_path / "config", {"exec": plugin}))

    async def ask() -> tuple[str, str]:
        async with connected(access) as connection:
            before = connection.waiting_for
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await connection.request("GET", "/version")
            return before, connection.waiting_for

    assert asyncio.run(ask()) == ("https://example.test:6443", "the exec plugin of the kubeconfig")
