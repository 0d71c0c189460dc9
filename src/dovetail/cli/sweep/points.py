"""Points of a sweep from ``--vary``: one list of keys, of NodePools and of ``dovetail run``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click

from dovetail.cli.options.policy import note_clashes
from dovetail.cli.options.run_settings import NAMES, change_settings
from dovetail.codec.text.suggestions import suggest
from dovetail.core.disruption.policy import DEFAULT_POLICY
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.settings import ControllerSettings
from dovetail.policies.load import PolicyLoadError
from dovetail.policies.process import open_policy
from dovetail.replay.sweep.design import Values, combine, sample
from dovetail.replay.sweep.nodepool_keys import NODEPOOL_KEYS, PoolChanges, check_value, split_key
from dovetail.replay.sweep.worker import Point
from dovetail.trace.model import Initial, Object, Set
from dovetail.trace.reader import Trace

POLICY: Final = "policy"
KEYS: Final = (*NODEPOOL_KEYS, *NAMES, POLICY)


def parse_vary(given: Iterable[str], pools: Sequence[str], catalog: Catalog) -> dict[str, list[str]]:
    """Return the values of each key; raise ``click.BadParameter`` with what is wrong."""
    varied: dict[str, list[str]] = {}
    problems: list[str] = []
    for text in given:
        key, equals, values = text.partition("=")
        if not equals or not key:
            problems.append(f"{text!r} is not KEY=VALUE,VALUE,…")
            continue
        if key in varied:
            problems.append(f"{key} is varied twice; name all its values at once")
            continue
        varied[key] = list(dict.fromkeys(value for value in values.split(",") if value))
        problems += _check(key, varied[key], pools, catalog)
    if problems:
        message = "; ".join(problems)
        raise click.BadParameter(message if message.endswith("?") else f"{message}.", param_hint="--vary")
    return varied


def _check(key: str, values: Sequence[str], pools: Sequence[str], catalog: Catalog) -> Iterable[str]:
    if not values:
        yield f"{key} has no values"
    if key in NAMES:
        for value in values:
            try:
                change_settings(ControllerSettings(), [f"{key}={value}"])
            except click.BadParameter as error:
                yield error.message.rstrip(".")
        return
    if key == POLICY:
        yield from _check_policies(values)
        return
    yield from _check_pool_key(key, values, pools, catalog)


def _check_pool_key(key: str, values: Sequence[str], pools: Sequence[str], catalog: Catalog) -> Iterable[str]:
    pool, pool_key = split_key(key)
    if pool_key not in NODEPOOL_KEYS:
        known = [f"{pool}.{name}" for name in NODEPOOL_KEYS] if pool in pools else KEYS
        hint = suggest(key if pool in pools else pool_key, known) or f"; known are {', '.join(known)}"
        yield f"{key!r} cannot be varied{hint}"
        return
    if pool and NODEPOOL_KEYS[pool_key].is_global:
        yield f"{key}: it is for all NodePools; write {pool_key}=…"
        return
    if pool and pool not in pools:
        yield f"{key}: there is no NodePool {pool!r}{suggest(pool, pools)}"
    for value in values:
        problem = check_value(pool_key, value, catalog)
        if problem:
            yield f"{key}: {problem}"


def _check_policies(values: Sequence[str]) -> Iterable[str]:
    note_clashes()
    for value in values:
        try:
            with open_policy(value):
                continue
        except PolicyLoadError as error:
            yield str(error)


def build_points(
    varied: Mapping[str, Sequence[str]], settings: ControllerSettings, *, samples: int | None, seed: int
) -> list[Point]:
    """Return the current settings, and every combination or a sample of them."""
    chosen = combine(varied) if samples is None else sample(varied, samples, seed=seed)
    return [_build_point((), settings), *(_build_point(values, settings) for values in chosen)]


def _build_point(values: Values, settings: ControllerSettings) -> Point:
    run = [f"{key}={value}" for key, value in values if key in NAMES]
    pools = [(*split_key(key), value) for key, value in values if key not in (*NAMES, POLICY)]
    return Point(
        values=values,
        settings=change_settings(settings, run),
        pools=PoolChanges(tuple(pools)),
        policy=dict(values).get(POLICY, DEFAULT_POLICY.name),
    )


def find_pools(trace: Trace, manifests: Iterable[Object]) -> list[str]:
    """Return the names of the NodePools of files, or else of the trace."""
    given = [obj["metadata"]["name"] for obj in manifests if obj["kind"] == "NodePool"]
    recorded = {
        event.object["metadata"]["name"]
        for event in trace.events
        if isinstance(event, Initial | Set) and event.object["kind"] == "NodePool"
    }
    return given or sorted(recorded)
