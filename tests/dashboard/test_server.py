"""The dashboard's server: who may read what, and how changes arrive."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from dovetail.dashboard.server import DashboardError, DashboardServer
from dovetail.dashboard.sources.source import SourceStatus
from dovetail.view.document import NodeState
from tests.dashboard.views import FailingSource, FakeSource, node, view

TOKEN = "a-token-of-enough-length"  # noqa: S105 - of a test
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Client:
    """A browser, without a page."""

    def __init__(self, session: aiohttp.ClientSession, url: str, source: FakeSource) -> None:
        self.session = session
        self.url = url
        self.source = source

    async def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        async with self.session.get(self.url + path, headers=headers, allow_redirects=False) as response:
            return response.status, await response.text(), dict(response.headers)

    async def load(self) -> dict[str, Any]:
        status, text, _ = await self.get("/api/view", **BEARER)
        assert status == 200
        return json.loads(text)

    @asynccontextmanager
    async def follow(self, revision: str) -> AsyncIterator[Callable[[], Awaitable[tuple[str, Any]]]]:
        """Yield a function that returns type and data of the next event."""
        headers = {**BEARER, "Last-Event-ID": revision}
        async with self.session.get(self.url + "/api/events", headers=headers) as response:
            assert response.status == 200

            async def next_event() -> tuple[str, Any]:
                lines: list[str] = []
                while True:
                    line = (await asyncio.wait_for(response.content.readline(), 5)).decode().rstrip("\n")
                    if line:
                        lines.append(line)
                        continue
                    fields = dict(text.split(": ", 1) for text in lines if not text.startswith(":"))
                    lines.clear()
                    if fields:
                        data = fields.get("data", "")
                        return fields["event"], json.loads(data) if data else None

            yield next_event


def run(
    test: Callable[[Client], Awaitable[None]],
    *,
    source: FakeSource | None = None,
    get_token: Callable[[], str] = lambda: TOKEN,
) -> None:
    async def main() -> None:
        documents = source or FakeSource(view(0, nodes=(node("a", "p1"),)))
        await documents.start()
        server = DashboardServer(documents, get_token=get_token)
        async with server.serving() as port, aiohttp.ClientSession() as session:
            await test(Client(session, f"http://127.0.0.1:{port}", documents))

    asyncio.run(main())


def test_page_and_modules_are_served_without_a_token_since_they_have_no_data() -> None:
    async def check(client: Client) -> None:
        status, text, headers = await client.get("/")
        assert status == 200
        assert '<script type="module" src="/static/main.js">' in text
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        for path, kind in (("main.js", "text/javascript"), ("pages/cluster.js", "text/javascript")):
            status, _, headers = await client.get(f"/static/{path}")
            assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")

    run(check)


@pytest.mark.parametrize("path", ["/api/view", "/api/events"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN} "[:-2]},
        {"Cookie": f"token={TOKEN}"},
    ],
)
def test_data_is_refused_without_the_right_token(path: str, headers: dict[str, str]) -> None:
    async def check(client: Client) -> None:
        status, text, _ = await client.get(path, **headers)
        assert status == 401
        assert "nodes" not in text

    run(check)


def test_token_in_the_query_is_refused_since_urls_are_logged() -> None:
    async def check(client: Client) -> None:
        status, _, _ = await client.get(f"/api/view?token={TOKEN}")
        assert status == 401

    run(check)


def test_an_empty_or_short_token_is_never_accepted() -> None:
    async def check(client: Client) -> None:
        assert (await client.get("/api/view", Authorization="Bearer "))[0] == 401
        assert (await client.get("/api/view", Authorization="Bearer short"))[0] == 401

    run(check, get_token=lambda: "")
    run(check, get_token=lambda: "short")


def test_a_rotated_token_is_valid_at_once() -> None:
    tokens = [TOKEN]

    async def check(client: Client) -> None:
        assert (await client.get("/api/view", **BEARER))[0] == 200
        tokens[0] = "another-token-of-enough-length"
        assert (await client.get("/api/view", **BEARER))[0] == 401
        assert (await client.get("/api/view", Authorization=f"Bearer {tokens[0]}"))[0] == 200

    run(check, get_token=lambda: tokens[0])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "127.0.0.1:x"]
)
@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/view", "/nowhere"])
def test_another_host_is_refused_so_that_dns_rebinding_reads_nothing(host: str, path: str) -> None:
    async def check(client: Client) -> None:
        status, _, _ = await client.get(path, Host=host, **BEARER)
        assert status in (400, 403)

    run(check)


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:1", "localhost", "[::1]:8082", "LOCALHOST:80"])
def test_loopback_names_are_accepted_with_any_port_as_port_forward_needs(host: str) -> None:
    async def check(client: Client) -> None:
        assert (await client.get("/api/view", Host=host, **BEARER))[0] == 200

    run(check)


def test_requests_of_other_sites_are_refused_even_with_the_token() -> None:
    async def check(client: Client) -> None:
        cross = {"Sec-Fetch-Site": "cross-site", **BEARER}
        assert (await client.get("/api/view", **cross))[0] == 403
        assert (await client.get("/api/view", **{"Sec-Fetch-Site": "same-site", **BEARER}))[0] == 403
        _, _, headers = await client.get("/api/view", Origin="http://evil.example", **BEARER)
        assert "Access-Control-Allow-Origin" not in headers

    run(check)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/%2e%2e/errors.py",
        "/static/pages/../../server.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\server.py",
        "/static/main.js%00.png",
        "/static/",
        "/static/pages",
        "/tsconfig.json",
        "/static/tsconfig.json",
        "/%2e%2e/server.py",
    ],
)
def test_no_path_reaches_a_file_outside_of_the_page(path: str) -> None:
    async def check(client: Client) -> None:
        # By hand: a client library would normalize the path.
        port = int(client.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        answer = (await reader.read()).decode(errors="replace")
        writer.close()
        assert answer.split()[1] in ("400", "404")
        assert "import" not in answer
        assert "root:" not in answer

    run(check)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/api/view", "/api/events"])
def test_nothing_can_be_written(method: str, path: str) -> None:
    async def check(client: Client) -> None:
        async with client.session.request(method, client.url + path, headers=BEARER) as response:
            assert response.status == 405

    run(check)


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/view", "/api/events", "/nowhere"])
def test_every_response_has_a_strict_policy(path: str) -> None:
    async def check(client: Client) -> None:
        async with client.session.get(client.url + path, headers=BEARER) as response:
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Referrer-Policy"] == "no-referrer"

    run(check)


def test_snapshot_has_document_history_and_status() -> None:
    async def check(client: Client) -> None:
        snapshot = await client.load()
        assert list(snapshot["view"]["nodes"]) == ["a"]
        assert len(snapshot["history"]) == 1
        assert snapshot["status"]["stale"] is False

    run(check)


def test_changes_are_small_patches_that_follow_the_snapshot() -> None:
    big = FakeSource(view(0, nodes=tuple(node(f"n{i}", "p1", "p2") for i in range(500))))

    async def check(client: Client) -> None:
        snapshot = await client.load()
        async with client.follow(snapshot["revision"]) as next_event:
            nodes = dict(big.current().view.nodes)
            nodes["n7"] = node("n7", "p1", "p2", state=NodeState.DRAINING)
            await big.publish(view(1, nodes=tuple(nodes.values())))
            kind, change = await next_event()
        assert kind == "change"
        assert change["patch"]["collections"]["nodes"]["set"] == {"n7": {"state": "draining"}}
        assert change["sample"]["nodes"] == 500
        assert len(json.dumps(change)) < 500

    run(check, source=big)


def test_a_browser_that_was_away_gets_the_changes_it_missed() -> None:
    async def check(client: Client) -> None:
        snapshot = await client.load()
        for second in (1, 2, 3):
            await client.source.publish(view(second, nodes=tuple(node(f"n{i}") for i in range(second))))
            await asyncio.sleep(0.05)
        async with client.follow(snapshot["revision"]) as next_event:
            added = [(await next_event())[1]["patch"]["collections"]["nodes"]["set"] for _ in range(3)]
        assert [list(nodes) for nodes in added] == [["n0"], ["n1"], ["n2"]]

    run(check)


@pytest.mark.parametrize("revision", ["", "another-1", "x", "-5", "zz-99999999999999999999"])
def test_a_browser_of_another_server_is_asked_to_load_again(revision: str) -> None:
    async def check(client: Client) -> None:
        async with client.follow(revision) as next_event:
            assert await next_event() == ("reset", None)

    run(check)


def test_a_browser_that_missed_too_much_is_asked_to_load_again() -> None:
    async def check(client: Client) -> None:
        snapshot = await client.load()
        for second in range(1, 200):
            await client.source.publish(view(second, price=float(second)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        async with client.follow(snapshot["revision"]) as next_event:
            assert (await next_event())[0] == "reset"

    run(check)


def test_a_stale_source_is_reported_and_recovers() -> None:
    async def check(client: Client) -> None:
        snapshot = await client.load()
        async with client.follow(snapshot["revision"]) as next_event:
            document = client.source.current().view
            await client.source.publish(document, SourceStatus(stale=True, reason="no answer"))
            _, change = await next_event()
            assert change["status"]["stale"] is True
            assert change["status"]["reason"] == "no answer"
            await client.source.publish(view(9))
            _, change = await next_event()
            assert change["status"]["stale"] is False

    run(check)


def test_a_source_that_fails_makes_the_view_stale_instead_of_silently_old() -> None:
    async def check(client: Client) -> None:
        await asyncio.sleep(0.05)
        snapshot = await client.load()
        assert snapshot["status"]["stale"] is True
        assert "ValueError: a bug" in snapshot["status"]["reason"]

    run(check, source=FailingSource(view()))


def test_an_idle_stream_has_heartbeats() -> None:
    async def check(client: Client) -> None:
        snapshot = await client.load()
        headers = {**BEARER, "Last-Event-ID": snapshot["revision"]}
        async with client.session.get(client.url + "/api/events", headers=headers) as response:
            assert await asyncio.wait_for(response.content.readline(), 5) == b": heartbeat\n"

    run(check)


def test_the_number_of_streams_is_limited() -> None:
    async def check(client: Client) -> None:
        revision = (await client.load())["revision"]
        headers = {**BEARER, "Last-Event-ID": revision}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            streams = [await session.get(client.url + "/api/events", headers=headers) for _ in range(33)]
            assert [stream.status for stream in streams].count(200) == 32
            assert streams[-1].status == 503
            for stream in streams:
                stream.close()

    run(check)


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    async def main() -> None:
        source = FakeSource(view())
        await source.start()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(DashboardError, match=f"127.0.0.1:{port}.*choose another port"):
                async with DashboardServer(source, get_token=lambda: TOKEN).serving(port):
                    pass

    asyncio.run(main())
