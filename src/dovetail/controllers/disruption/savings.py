"""Savings ledger: records each disruption command and what it saves.

    disruption controller -> record(commands) -> ConfigMap   before the first node is tainted
    NodeClaims come and go -> reconcile: times and costs     -> ConfigMap, at most once a minute

The record is written before the command starts and has no amounts, only times and
costs. So a crash after any step loses no command, and repeating a step counts nothing
twice. A command that did not get further is found by its nodes, which have lost
their disrupted taint. Without access to the ConfigMap everything goes on, but savings
are forgotten with the process.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from dovetail.codec.savings_ledger import LedgerError, decode_ledger, encode_ledger
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.runtime.manager import SINGLETON, SYNC_POLL, Controller, RequeueAfter
from dovetail.core.disruption.candidates import get_node_price
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.savings import (
    SavingsObservation,
    add_record,
    create_record,
    sum_by_reason,
    update_ledger,
)
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.node import Node
from dovetail.model.savings import LEDGER_CONFIG_MAP, LEDGER_KEY
from dovetail.ports.api_resources import CONFIG_MAPS, NODE_CLAIMS
from dovetail.ports.kube_errors import ApiError, Conflict, NotFound
from dovetail.ports.metrics import EXPECTED_SAVINGS, REALIZED_SAVINGS, ReasonLabels
from dovetail.state.cluster.cache import ObjectChange
from dovetail.state.instancetypes.by_name import InstanceTypeIndex

NAME: Final = "disruption.savings"
_INTERVAL: Final = timedelta(minutes=1)
"""Shortest time between two writes of what was observed; commands are written at once."""
_MAX_CONFLICTS: Final = 3


class SavingsRecorder(ControllerBase):
    """Writes the ledger to its ConfigMap."""

    async def record(self, commands: Iterable[Command], reason: DisruptionReason) -> None:
        """Record commands that are about to start; a failed write does not stop them."""
        book = self._context.savings
        await self.load()
        now = self._loop.now()
        for command in commands:
            book.update(add_record(book.ledger, create_record(command, reason, now)))
        await self.save()

    async def load(self) -> None:
        """Read the ledger once, and add what was recorded before that succeeded."""
        book = self._context.savings
        if book.is_loaded:
            return
        try:
            config_map = await self._kube.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, self._context.namespace)
        except NotFound:
            self._report("it does not exist; the chart installs it")
            return
        except ApiError as error:
            self._report(str(error))
            return
        try:
            ledger = decode_ledger(config_map)
        except LedgerError as error:
            self._report(str(error))
            return
        for record in book.ledger.records:
            ledger = add_record(ledger, record)
        book.ledger, book.is_loaded = ledger, True
        book.resource_version = config_map["metadata"].get("resourceVersion", "")

    async def save(self) -> None:
        """Write the ledger if it has changed; the ledger of this process wins."""
        book = self._context.savings
        if not book.is_loaded or not book.is_dirty:
            return
        for _ in range(_MAX_CONFLICTS):
            written = book.ledger
            try:
                await self._write(encode_ledger(written))
            except Conflict:
                # A write of ours overtook this one, or a user edited the object.
                with suppress(ApiError):
                    await self._refresh_version()
                continue
            except ApiError as error:
                self._report(str(error))
                return
            book.is_dirty = book.ledger is not written
            book.saved_at, book.problem = self._loop.now(), ""
            return

    async def _write(self, text: str) -> None:
        book = self._context.savings
        patch = {"metadata": {"resourceVersion": book.resource_version}, "data": {LEDGER_KEY: text}}
        answer = await self._kube.patch(CONFIG_MAPS, LEDGER_CONFIG_MAP, patch, self._context.namespace)
        book.resource_version = answer["metadata"]["resourceVersion"]

    async def _refresh_version(self) -> None:
        config_map = await self._kube.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, self._context.namespace)
        self._context.savings.resource_version = config_map["metadata"]["resourceVersion"]

    def _report(self, problem: str) -> None:
        book = self._context.savings
        if book.problem != problem:
            book.problem = problem
            self._log.error(
                "the savings ledger is not saved",
                configmap=f"{self._context.namespace}/{LEDGER_CONFIG_MAP}",
                error=problem,
            )


class SavingsController(ControllerBase):
    """Brings the ledger up to date with the NodeClaims, and sets its metrics."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._book = context.savings
        self._recorder = SavingsRecorder(context)
        self._types = InstanceTypeIndex()

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile when a NodeClaim of a record goes, or a replacement is launched."""
        claim = change.latest
        if change.new is None:
            return (SINGLETON,) if self._book.tracks(claim.name) else ()
        old = change.old
        is_launched = old is not None and not old.provider_id and claim.provider_id
        return (SINGLETON,) if is_launched and self._book.ledger.records else ()

    async def reconcile(self, _: str) -> RequeueAfter:
        # Observe.
        if not self._cache.has_synced():
            return SYNC_POLL
        await self._recorder.load()
        now = self._loop.now()

        # Decide.
        ledger = self._book.ledger
        if ledger.records:
            observed = SavingsObservation(
                now=now, get_claim=self._cache.claim, claims=self._cache.claims(), get_cost=self._get_cost
            )
            ledger = update_ledger(ledger, observed)

        # Act and report.
        self._book.update(ledger)
        next_save = self._book.saved_at + _INTERVAL if self._book.saved_at is not None else now
        if now >= next_save:
            await self._recorder.save()
        for reason, totals in sum_by_reason(ledger, now).items():
            labels = ReasonLabels(reason=reason.lower())
            self._metrics.set(EXPECTED_SAVINGS, totals.expected, labels)
            self._metrics.set(REALIZED_SAVINGS, totals.realized, labels)
        return RequeueAfter(_INTERVAL)

    def _get_cost(self, claim: NodeClaim) -> float | None:
        """Return USD per hour of a launched NodeClaim with its node cost; None: unknown."""
        pool = self._cache.pool(claim.pool)
        if pool is None:
            return None
        types = self._cloud_provider.instance_types(pool)
        node = Node(name=claim.name, labels=claim.labels)
        price = get_node_price(node, self._types.by_name(pool.name, types))
        if not price:
            return None
        return price + get_node_cost(pool, types, self._context.scheduling_settings.node_cost)


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = SavingsController(context)
    return Controller(
        name=NAME,
        reconciler=reconciler,
        watches=((NODE_CLAIMS, reconciler.handle_claim),),
        initial_keys=(SINGLETON,),
        workers=1,
    )
