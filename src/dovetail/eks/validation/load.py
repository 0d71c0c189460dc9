"""From the text of cluster.yaml to its model, or to every mistake in it."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from dovetail.codec.text.encoding import as_utf8
from dovetail.codec.text.field_path import Path, show
from dovetail.codec.text.yaml_reader import Unreadable, YamlReader
from dovetail.data.bundled import bundled_catalog
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.error_messages import findings
from dovetail.eks.plan.references import OPENING
from dovetail.eks.validation.finding import Finding
from dovetail.eks.validation.validate import check
from dovetail.errors import BadInput, Mistake
from dovetail.model.cloud.ec2_catalog import Catalog

_STAND_INS: dict[str, Any] = {
    "name": "x",
    # None that there is: what needs to know the region is not looked at.
    "region": "?",
    "version": "1.33",
    "home": "fargate",
    "nodePools": [{"name": "x"}],
}
"""For required fields that cannot be read, so that the others can be looked at."""


def read_spec(file: str, data: bytes, *, catalog: Catalog | None = None) -> ClusterSpec:
    """Read a cluster.yaml; raises ``BadInput`` with all that is wrong in it.

    Nothing is asked of AWS: the bundled catalogue says which regions, zones and
    instance types there are.
    """
    catalog = catalog or bundled_catalog()
    text = as_utf8(file, data)
    if isinstance(text, Mistake):
        raise BadInput([text])
    value = _document(file, text)
    ours = list(_references(value, ()))
    if ours:
        raise BadInput(_placed(file, text, ours))
    try:
        spec = ClusterSpec.model_validate(value)
    except ValidationError as error:
        wrong = list(findings(error.errors(include_url=False), value))
        raise BadInput(_placed(file, text, [*wrong, *_besides(value, wrong, catalog)])) from None
    wrong = list(check(spec, catalog))
    if wrong:
        raise BadInput(_placed(file, text, wrong))
    return spec


def _document(file: str, text: bytes) -> dict[str, Any]:
    reader = YamlReader(file, text)
    try:
        documents = [one.value for one in reader.objects() if one.value is not None]
    except Unreadable as error:
        raise BadInput([*reader.mistakes, error.mistake]) from None
    if reader.mistakes:
        raise BadInput(reader.mistakes)
    if not documents:
        raise BadInput([Mistake(file, 0, "", "is empty; a cluster has a name, a region, a home …")])
    if len(documents) > 1:
        raise BadInput([Mistake(file, 0, "", f"holds {len(documents)} documents; one is right")])
    if not isinstance(documents[0], dict):
        raise BadInput([Mistake(file, 1, "", "is no map of fields: name, region, home …")])
    return documents[0]


def _references(value: Any, path: Path) -> Iterator[Finding]:
    """Find text that we would take for a reference between resources."""
    if isinstance(value, str) and OPENING in value:
        yield path, f"may not hold {OPENING!r}, which stands for a reference here"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _references(key, path)
            yield from _references(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _references(inner, (*path, number))


def _besides(value: dict[str, Any], wrong: Iterable[Finding], catalog: Catalog) -> list[Finding]:
    """Check the fields that can be read, while others cannot."""
    spoilt = {str(path[0]) for path, _ in wrong if path}
    readable = {key: inner for key, inner in value.items() if key not in spoilt}
    for key, stand_in in _STAND_INS.items():
        readable.setdefault(key, stand_in)
    unsure = spoilt | (set(_STAND_INS) - set(value))
    try:
        spec = ClusterSpec.model_validate(readable)
    except ValidationError:
        return []
    return [
        (path, message) for path, message in check(spec, catalog, unsure) if path[0] not in unsure
    ]


def _placed(file: str, text: bytes, wrong: Iterable[Finding]) -> list[Mistake]:
    found = list(wrong)
    reader = YamlReader(file, text, [(0, *path) for path, _ in found])
    for _ in reader.objects():
        pass
    mistakes = [
        Mistake(file, _innermost(reader.lines, (0, *path)), show(path), message)
        for path, message in found
    ]
    return sorted(mistakes, key=lambda one: one.line)


def _innermost(lines: dict[Path, int], path: Path) -> int:
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 0
