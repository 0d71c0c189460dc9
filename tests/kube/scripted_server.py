"""An API server with scripted responses."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from dovetail.kube.auth.credentials import StaticToken
from dovetail.kube.auth.kubeconfig import RestConfig
from tests.contract.apiserver.objects import a_pod

Answer = tuple[int, Any]
"""A status, and a body: text as it is, anything else as JSON."""


class Script:
    """Answers lists and watches; after the last answer it is silent."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        self.asked.append(f"watch {query['resourceVersion']}" if "watch" in query else "list")
        if not self._answers:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(60)
            return response
        code, body = self._answers.pop(0)
        if isinstance(body, str):
            return web.Response(status=code, text=body)
        return web.json_response(body, status=code)


@asynccontextmanager
async def played(script: Script) -> AsyncIterator[RestConfig]:
    """Serve the script over plain HTTP."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield RestConfig(
            server=f"http://127.0.0.1:{runner.addresses[0][1]}",
            tls=ssl.create_default_context(),
            credentials=StaticToken("any"),
        )
    finally:
        await runner.cleanup()


def a_status(code: int, reason: str, **details: Any) -> Answer:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "m", "details": details}
    return code, status


def a_list(revision: int, *names: str, more: str = "") -> Answer:
    meta = {"resourceVersion": str(revision), "continue": more}
    return 200, {"kind": "PodList", "metadata": meta, "items": [text(ami_name, 1) for ami_name in names]}


def text(name: str, revision: int) -> dict[str, Any]:
    pod = a_pod(name)
    meta = {"uid": name, "namespace": "default", "resourceVersion": str(revision)}
    return {**pod, "metadata": {**pod["metadata"], **meta}}


def an_event(kind: str, obj: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "object": obj}) + "\n"
