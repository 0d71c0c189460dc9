"""Readers of traces, audit logs, plans, ledgers and dumps never fail.

Only the documented error comes out of a file with junk, of one that is nested deeply or of one
that is not text.
"""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.codec.savings_ledger import find_ledger
from dovetail.data.bundled import bundled_catalog
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.planner import plan_changes
from dovetail.eks.plan.saved_plan import read_plan, save_plan
from dovetail.errors import DovetailError
from dovetail.migration.sources import read_dumps as read_migration_dumps
from dovetail.model.savings import LEDGER_CONFIG_MAP, LEDGER_KEY
from dovetail.operator.cluster_objects import read_dumps
from dovetail.record.importers.audit import AuditImport
from dovetail.record.importers.audit_events import AuditReader
from dovetail.record.resumption import read_resumption
from dovetail.trace.reader import load_trace
from tests.core.disruption.test_savings import a_ledger, a_record
from tests.record.importers.test_audit import line
from tests.record.objects import deployment, pod
from tests.support.eks.configs import ACCOUNT, a_cluster
from tests.support.eks.in_memory_account import InMemoryAccount
from tests.support.fuzz.corpus import cluster_objects
from tests.support.fuzz.mutations import mutated
from tests.trace.test_trace_file import EVENTS, HEADER

FEW = settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
MANY = settings(max_examples=1_500, suppress_health_check=list(HealthCheck), deadline=None)
"""Of the slow tests."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Read = Callable[[bytes], object]


def read_trace(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace")
        path.write_bytes(data)
        with suppress(DovetailError):
            read_resumption(path)
        load_trace(path)


def read_audit(data: bytes) -> None:
    reader, audit = AuditReader(), AuditImport()
    audit.add(reader.read(data.splitlines(keepends=True), "audit.log"))
    reader.check()
    audit.play()


@cache
def trace_lines() -> list[Any]:
    return [msgspec.to_builtins(HEADER), *(msgspec.to_builtins(event) for event in EVENTS)]


@cache
def audit_lines() -> list[Any]:
    writes = [
        line("create", deployment()),
        line("patch", deployment(), second=1),
        line("update", deployment(), second=2, subresource="scale"),
        line("create", pod("etl-1", owner="etl"), plural="pods", second=3),
        line("create", pod("etl-1", owner="etl"), plural="pods", second=4, subresource="eviction"),
        line("delete", pod("etl-1", owner="etl"), plural="pods", second=5),
    ]
    return [json.loads(write) for write in writes]


@cache
def documents() -> list[Any]:
    return [obj for objects in cluster_objects().values() for obj in objects]


@cache
def saved_plans() -> list[Any]:
    desired = desired_state(a_cluster())
    plan = plan_changes(desired, InMemoryAccount(desired).observed())
    text = save_plan(plan, cluster="dev", account=ACCOUNT, file="c.yaml", content=b"", dovetail="1.0")
    return [json.loads(text)]


@cache
def ledgers() -> list[Any]:
    return [msgspec.to_builtins(a_ledger(a_record(0.2, 0.1)))]


def as_lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def ledger_dump(text: bytes) -> bytes:
    meta = {"name": LEDGER_CONFIG_MAP, "namespace": "kube-system"}
    data = {LEDGER_KEY: text.decode("utf-8", "replace")}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}).encode()


FILES: dict[str, tuple[Callable[[], list[Any]], Read]] = {
    "trace": (trace_lines, read_trace),
    "audit log": (audit_lines, read_audit),
    "saved plan": (saved_plans, lambda data: read_plan("plan.json", data)),
    "ledger": (ledgers, lambda data: find_ledger([("dump.json", ledger_dump(data))])),
    "dump": (documents, lambda data: read_dumps([("dump.json", data)])),
    "dump of Karpenter": (
        documents,
        lambda data: read_migration_dumps([("dump.json", data)], now=NOW, catalog=bundled_catalog()),
    ),
}
LINES = ("trace", "audit log")
"""Files with one document per line."""


def check(name: str, data: st.DataObject) -> None:
    rows, read = FILES[name]
    if name in LINES:
        changed = data.draw(st.integers(0, len(rows()) - 1))
        text = as_lines([*rows()[:changed], data.draw(mutated([rows()[changed]])), *rows()[changed + 1 :]])
    else:
        text = json.dumps(data.draw(mutated(rows()))).encode()
    with suppress(DovetailError):
        read(text)


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_junk_is_read_or_rejected(name: str) -> None:
    FEW(given(st.data())(lambda data: check(name, data)))()


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_thousands_of_files_with_junk_are_read_or_rejected(name: str) -> None:
    MANY(given(st.data())(lambda data: check(name, data)))()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000 + b"\n", b'{"a":' * 100_000 + b"\n", b"\xff\xfe\x00", b'{"a": "\x00'],
    ids=["nested lists", "nested objects", "not text", "half an object"],
)
def test_a_file_that_is_no_document_is_rejected(name: str, text: bytes) -> None:
    _, read = FILES[name]

    with pytest.raises(DovetailError):
        read(text)


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a":"\xff"}'])
def test_a_line_that_is_no_document_is_rejected(name: str, text: bytes) -> None:
    rows, read = FILES[name]

    with pytest.raises(DovetailError):
        read(as_lines(rows()) + text + b"\n")
