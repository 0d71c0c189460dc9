"""Reading many files into one collection of objects, or all their mistakes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dovetail.codec.inputs.decoders import Decoded, read_object
from dovetail.codec.kube.pods import is_gated
from dovetail.codec.kube.storage import asks_for_no_class
from dovetail.codec.text.documents import Files, Misplaced
from dovetail.errors import BadInput, Mistake

NamedFile = tuple[str, bytes]
"""What to call a file in messages, and what is in it."""

MOST_MISTAKES = 200


class Collection:
    """Objects by kind, namespace and name, in the order in which they were read."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Decoded] = {}
        self.ignored: Counter[str] = Counter()
        self.gated: set[str] = set()
        """Pods that wait for their scheduling gates."""
        self.classless: set[str] = set()
        """Claims that want no storage class, not even the default one."""
        self.twins: list[tuple[Decoded, Decoded]] = []
        self.files: list[str] = []

    def add(self, one: Decoded) -> None:
        """Take an object in; its raw text is let go, for dumps have a lot of it."""
        raw = one.source.value
        source = msgspec.structs.replace(one.source, value={})
        one = msgspec.structs.replace(one, source=source, today={})
        first = self.objects.setdefault(one.key, one)
        if first is not one:
            self.twins.append((first, one))
        elif one.kind == "Pod" and is_gated(raw):
            self.gated.add(one.model.key)
        elif one.kind == "PersistentVolumeClaim" and asks_for_no_class(raw):
            self.classless.add(one.model.key)

    def of_kind(self, kind: str) -> list[Any]:
        return [one.model for key, one in self.objects.items() if key[0] == kind]

    def decoded(self, kind: str) -> list[Decoded]:
        return [one for key, one in self.objects.items() if key[0] == kind]

    def has(self, kind: str) -> bool:
        return any(key[0] == kind for key in self.objects)

    def model(self, kind: str, namespace: str, name: str) -> Any:
        found = self.objects.get((kind, namespace, name))
        return None if found is None else found.model


def gather(
    manifests: Sequence[NamedFile], cluster: Sequence[NamedFile] = ()
) -> tuple[Collection, Collection]:
    """Read everything; raises ``BadInput`` with all mistakes of all files.

    One object twice among the manifests is a mistake. In dumps, which often
    overlap, the first one counts.
    """
    files = Files()
    shared: dict[Any, Any] = {}
    misplaced: list[Misplaced] = []
    given = _collect(files, manifests, shared, misplaced, trusted=False)
    live = _collect(files, cluster, shared, misplaced, trusted=True)
    mistakes = [*files.mistakes, *files.placed(misplaced[:MOST_MISTAKES])]
    mistakes += _twin_mistakes(files, given.twins)
    if mistakes:
        order = {name: index for index, (name, _) in enumerate([*manifests, *cluster])}
        mistakes.sort(key=lambda one: (order.get(one.file, 0), one.line))
        raise BadInput(mistakes)
    return given, live


def _collect(
    files: Files,
    sources: Iterable[NamedFile],
    shared: dict[Any, Any],
    misplaced: list[Misplaced],
    *,
    trusted: bool,
) -> Collection:
    found = Collection()
    for name, data in sources:
        found.files.append(name)
        for raw in files.objects(name, data):
            read = read_object(raw, trusted=trusted, pool=shared)
            misplaced.extend(read.mistakes)
            if read.ignored is not None:
                found.ignored[read.ignored] += 1
            for one in read.objects:
                if one.name:
                    found.add(one)
    return found


def _twin_mistakes(files: Files, twins: list[tuple[Decoded, Decoded]]) -> list[Mistake]:
    shown = twins[:MOST_MISTAKES]
    places = files.placed([_name_of(one) for pair in shown for one in pair])
    mistakes = []
    for number, (_, second) in enumerate(shown):
        first_at, second_at = places[2 * number], places[2 * number + 1]
        whose = f"{second.namespace}/" if second.namespace else ""
        message = (
            f"{second.kind} {whose}{second.name} is there twice; "
            f"the first is in {first_at.file}:{first_at.line}"
        )
        mistakes.append(Mistake(second_at.file, second_at.line, second_at.field, message))
    return mistakes


def _name_of(one: Decoded) -> Misplaced:
    source = one.source
    return Misplaced(source.file, source.document, (*source.path, "metadata", "name"), "")
