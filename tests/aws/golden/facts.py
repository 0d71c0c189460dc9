"""Facts of a case: from Karpenter's recordings, or from a run of our own."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.aws.golden.cases import Case
from tests.aws.golden.normal_form import (
    Facts,
    PlainRequest,
    normalize_nodeclaim,
    normalize_nodeclass,
    normalize_requests,
)
from tests.aws.golden.run import CaseRun, error_kind

RECORDINGS = Path(
    os.environ.get("DOVETAIL_GOLDEN_AWS") or Path(__file__).parents[3].parent / "shared" / "golden-aws"
)
_START = "al2023-default"
_ERRORS = {"insufficient capacity": "insufficient-capacity", "NodeClassRef not ready": "nodeclass-not-ready"}


def read_recordings() -> dict[str, tuple[Case, Facts]]:
    """Return case name → input and facts of the recordings."""
    inputs = msgspec.json.decode((RECORDINGS / "inputs.json").read_bytes())
    recordings = {
        entry["name"]: msgspec.json.decode((RECORDINGS / f"{entry['name']}.json").read_bytes())
        for entry in inputs
    }
    # Karpenter starts in the same way in all cases of a region, so it is recorded once.
    start = recordings[_START]["requests"]["start"]
    return {
        entry["name"]: (
            Case(
                name=entry["name"],
                settings=entry["settings"],
                nodeclass=entry["nodeClass"],
                changed_nodeclass=entry["nodeClass2"] or {},
                nodepool=entry["nodePool"],
                nodeclaims=entry["nodeClaims"],
                messages=entry["messages"],
                steps=entry["steps"],
            ),
            facts_of_recording(
                recordings[entry["name"]], {"start": start, **dict.fromkeys(entry["steps"], ())}
            ),
        )
        for entry in inputs
    }


def facts_of_recording(recording: Mapping[str, Any], defaults: Mapping[str, Sequence[Any]]) -> Facts:
    """Return the facts of a recording; ``defaults`` are phases that it may not have."""
    recorded = {**defaults, **recording["requests"]}
    requests = {
        phase: [
            PlainRequest(
                entry["service"], entry["operation"], entry["region"], entry["answer"], entry["params"]
            )
            for entry in entries
        ]
        for phase, entries in recorded.items()
    }
    outcome = recording["results"]
    results: Facts = {}
    if "status" in outcome:
        conditions = {kind: tuple(text.split(" ")[:2]) for kind, text in outcome["conditions"].items()}
        results["nodeclass"] = normalize_nodeclass(outcome["status"], conditions)
    for claim in outcome.get("launched", ()):
        results[f"nodeclaim {claim['name']}"] = normalize_nodeclaim(
            image_id=claim["imageID"],
            labels=claim["labels"],
            annotations=claim["annotations"],
            capacity=claim["capacity"],
            allocatable=claim["allocatable"],
        )
    if "launchErrors" in outcome:
        results["errors"] = {"kinds": [_recorded_error(text) for text in outcome["launchErrors"]]}
    if "drift" in outcome:
        results["drift"] = {"reason": outcome["drift"].split(" ")[0]}
    if "listed" in outcome:
        results["listed"] = {"count": outcome["listed"]}
    if "parsed" in outcome:
        results["messages"] = {
            entry["id"]: {"kind": entry.get("kind", "error"), "instances": sorted(entry.get("instances", ()))}
            for entry in outcome["parsed"]
        }
    return {"requests": normalize_requests(requests), "results": results}


def facts_of_run(run: CaseRun) -> Facts:
    outcome = run.results
    results: Facts = {}
    if "status" in outcome:
        results["nodeclass"] = normalize_nodeclass(outcome["status"], outcome["conditions"])
    for instance in outcome.get("launched", ()):
        results[f"nodeclaim {instance.nodeclaim}"] = normalize_nodeclaim(
            image_id=instance.image_id,
            labels=instance.labels,
            annotations=instance.annotations,
            capacity=instance.capacity.to_quantities(),
            allocatable=instance.allocatable.to_quantities(),
        )
    if "errors" in outcome:
        results["errors"] = {"kinds": [error_kind(error) for error in outcome["errors"]]}
    if "drift" in outcome:
        results["drift"] = {"reason": outcome["drift"]}
    if "listed" in outcome:
        results["listed"] = {"count": outcome["listed"]}
    if "messages" in outcome:
        results["messages"] = {
            receipt.removeprefix("rh-"): {
                "kind": message.kind.value,
                "instances": sorted(message.instance_ids),
            }
            for receipt, message in outcome["messages"].items()
        }
    return {"requests": normalize_requests(plain_requests(run)), "results": results}


def plain_requests(run: CaseRun) -> dict[str, list[PlainRequest]]:
    return {
        phase: [
            PlainRequest(
                entry.request.service,
                entry.request.operation,
                entry.request.region,
                entry.code,
                entry.request.params,
            )
            for entry in entries
        ]
        for phase, entries in run.requests.items()
    }


def _recorded_error(text: str) -> str:
    return next((kind for words, kind in _ERRORS.items() if words in text), "failed")
