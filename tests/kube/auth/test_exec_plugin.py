"""Programs that say who we are, on their worse days."""

import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dovetail.kube.auth.credentials import NoCredentials
from dovetail.kube.auth.kubeconfig import Access, find_access
from tests.kube.auth.test_kubeconfig import Clock, a_plugin, found, token_of, written
from tests.kube.serving import connected

COUNTS = """\
import json, pathlib
count = pathlib.Path(__file__).with_name("count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(json.dumps({"status": {"token": str(number), "expirationTimestamp": "%s"}}))
"""


def asked_at(access: Access, clock: Clock, *seconds: float) -> list[str]:
    """Return the tokens that there are so long after the start."""
    start = clock.moment

    async def ask() -> list[str]:
        tokens = []
        for one in seconds:
            clock.moment = start + timedelta(seconds=one)
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
def test_a_plugin_is_not_run_for_every_request_however_short_its_token_lasts(
    tmp_path: Path, ends: str, tokens: list[str]
) -> None:
    clock = Clock()
    file = written(tmp_path / "config", {"exec": a_plugin(tmp_path, COUNTS % ends)})
    access = find_access(str(file), environ={"PATH": "/usr/bin"}, clock=clock)

    assert asked_at(access, clock, 0, 0.5, 2) == tokens


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"token": "a", "expirationTimestamp": "2026-01-01T00:00:00"}, "no ExecCredential"),
        ({"token": "a", "expirationTimestamp": "tomorrow"}, "no ExecCredential"),
        ({"token": "a\nHost: elsewhere"}, "a token that is none"),
        ({"token": 5}, "no ExecCredential"),
        (["token"], "no ExecCredential"),
    ],
)
def test_what_is_no_credential_is_said_to_be_none(tmp_path: Path, status: Any, told: str) -> None:
    body = f"print({json.dumps({'status': status})!r})"
    access = found(written(tmp_path / "config", {"exec": a_plugin(tmp_path, body)}))

    with pytest.raises(NoCredentials, match=told):
        token_of(access)


def test_the_end_of_a_line_is_no_part_of_a_token(tmp_path: Path) -> None:
    body = """print('{"status": {"token": "abc\\\\n"}}')"""
    access = found(written(tmp_path / "config", {"exec": a_plugin(tmp_path, body)}))

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
    # What nobody has asked after yet is there in name only.
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes as Linux shows them")
def test_a_plugin_that_hangs_is_ended_with_all_it_started_once_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    access = found(written(tmp_path / "config", {"exec": a_plugin(tmp_path, HANGS)}))
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
        return [int(one) for one in pids.read_text().split()]

    asyncio.run(give_up())

    assert [one for one in started() if is_running(one)] == []


TELLS = """\
import json, os
spec = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]
print(json.dumps({"status": {"token": json.dumps(spec)}}))
"""


def test_a_plugin_that_wants_to_is_told_of_the_cluster(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    file = written(
        tmp_path / "config",
        {"exec": {**a_plugin(tmp_path, TELLS), "provideClusterInfo": True}},
        extensions=[{"name": "other", "extension": 1}, extension],
        **{"tls-server-name": "kubernetes"},
    )

    told = json.loads(token_of(found(file)))

    assert told == {
        "interactive": False,
        "cluster": {
            "server": "https://example.test:6443/",
            "tls-server-name": "kubernetes",
            "config": {"audience": "a"},
        },
    }


def test_others_are_not(tmp_path: Path) -> None:
    access = found(written(tmp_path / "config", {"exec": a_plugin(tmp_path, TELLS)}))

    assert json.loads(token_of(access)) == {"interactive": False}


def test_a_plugin_that_hangs_at_the_start_is_named_and_not_the_server(tmp_path: Path) -> None:
    plugin = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    access = found(written(tmp_path / "config", {"exec": plugin}))

    async def ask() -> tuple[str, str]:
        async with connected(access) as connection:
            before = connection.awaited
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await connection.ask("GET", "/version")
            return before, connection.awaited

    assert asyncio.run(ask()) == (
        "https://example.test:6443",
        "the program that the kubeconfig's user.exec names",
    )
