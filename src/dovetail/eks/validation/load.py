"""Loading of cluster.yaml: from text to ``ClusterConfig``, or to all its errors.

::

    bytes ─> YAML ─> pydantic models ─> checks between fields ─> ClusterConfig
               └──────────┴──────────────────┴─> InvalidInputError (all at once)

AWS is not called: the bundled catalogue says which regions, zones and instance
types exist.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

import pydantic

from dovetail.codec.text.encoding import to_utf8
from dovetail.codec.text.field_path import FieldPath, format_path
from dovetail.codec.text.yaml_reader import ParseError, YamlReader
from dovetail.data.bundled import bundled_catalog
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.error_messages import FieldError, describe_errors
from dovetail.eks.plan.references import REFERENCE_START
from dovetail.eks.validation.addons import validate_addons
from dovetail.eks.validation.cluster import validate_node_groups, validate_region, validate_tags
from dovetail.eks.validation.iam import (
    validate_access,
    validate_encryption_key,
    validate_names,
    validate_roles,
)
from dovetail.eks.validation.network import validate_cidrs, validate_ip_family, validate_vpc
from dovetail.eks.validation.nodepools import validate_nodepools
from dovetail.errors import InvalidInputError, ValidationError
from dovetail.model.cloud.ec2_catalog import Catalog

Check = Callable[[ClusterConfig, Catalog], Iterable[FieldError]]

_CHECKS: Final[tuple[tuple[Check, frozenset[str]], ...]] = (
    (validate_region, frozenset()),
    (validate_tags, frozenset()),
    (validate_vpc, frozenset({"vpc", "home"})),
    (validate_cidrs, frozenset()),
    (validate_ip_family, frozenset({"home", "vpc", "addons", "ipFamily", "serviceCidr"})),
    (validate_names, frozenset({"name", "home", "controller", "serviceAccounts"})),
    (validate_roles, frozenset({"home", "iam"})),
    (validate_encryption_key, frozenset({"home", "region", "secretsEncryption"})),
    (validate_access, frozenset({"home", "access"})),
    (validate_node_groups, frozenset({"home"})),
    (validate_nodepools, frozenset({"region", "vpc", "nodePools", "nodeClasses"})),
    (validate_addons, frozenset({"home", "addons", "controller"})),
)
"""Each check, and the fields that it requires."""
_PLACEHOLDERS: Final[dict[str, Any]] = {
    "name": "x",
    # No such region exists, so checks that depend on the region are skipped.
    "region": "?",
    "version": "1.33",
    "home": "fargate",
    "nodePools": [{"name": "x"}],
}
"""Values for invalid required fields, so that the other fields can be checked."""


def load_config(file: str, data: bytes, *, catalog: Catalog | None = None) -> ClusterConfig:
    """Load a cluster.yaml; raises ``InvalidInputError`` with all errors in it."""
    catalog = catalog or bundled_catalog()
    text = to_utf8(file, data)
    if isinstance(text, ValidationError):
        raise InvalidInputError([text])
    document = _read_document(file, text)
    references = list(_find_references(document, ()))
    if references:
        raise InvalidInputError(_locate(file, text, references))
    try:
        config = ClusterConfig.model_validate(document)
    except pydantic.ValidationError as error:
        errors = list(describe_errors(error.errors(include_url=False), document))
        errors += _check_valid_fields(document, errors, catalog)
        raise InvalidInputError(_locate(file, text, errors)) from None
    errors = list(_run_checks(config, catalog))
    if errors:
        raise InvalidInputError(_locate(file, text, errors))
    return config


def _read_document(file: str, text: bytes) -> dict[str, Any]:
    reader = YamlReader(file, text)
    try:
        documents = [entry.value for entry in reader.read_objects() if entry.value is not None]
    except ParseError as error:
        raise InvalidInputError([*reader.errors, error.error]) from None
    if reader.errors:
        raise InvalidInputError(reader.errors)
    message = ""
    if not documents:
        message = "is empty; a cluster needs a name, a region, a home …"
    elif len(documents) > 1:
        message = f"has {len(documents)} documents; expected one"
    elif not isinstance(documents[0], dict):
        message = "is not a map of fields: name, region, home …"
    if message:
        line = 1 if len(documents) == 1 else 0
        raise InvalidInputError([ValidationError(file, line, "", message)])
    whole: dict[str, Any] = documents[0]
    return whole


def _find_references(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """Yield an error for text that would be read as a reference between resources."""
    if isinstance(value, str) and REFERENCE_START in value:
        yield path, f"must not contain {REFERENCE_START!r}, which starts a reference"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _find_references(key, path)
            yield from _find_references(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _find_references(inner, (*path, number))


def _run_checks(
    config: ClusterConfig, catalog: Catalog, invalid: Collection[str] = ()
) -> Iterator[FieldError]:
    """Yield all errors; checks that require a field in ``invalid`` are skipped."""
    for check, required in _CHECKS:
        if not required.intersection(invalid):
            yield from check(config, catalog)


def _check_valid_fields(
    document: dict[str, Any], errors: Iterable[FieldError], catalog: Catalog
) -> list[FieldError]:
    """Check the fields that are valid, with placeholders for the others."""
    invalid = {str(path[0]) for path, _ in errors if path}
    fields = {key: value for key, value in document.items() if key not in invalid}
    for key, placeholder in _PLACEHOLDERS.items():
        fields.setdefault(key, placeholder)
    unknown = invalid | (set(_PLACEHOLDERS) - set(document))
    try:
        config = ClusterConfig.model_validate(fields)
    except pydantic.ValidationError:
        return []
    return [
        (path, message) for path, message in _run_checks(config, catalog, unknown) if path[0] not in unknown
    ]


def _locate(file: str, text: bytes, errors: Iterable[FieldError]) -> list[ValidationError]:
    """Return errors with their line numbers, in order of lines."""
    field_errors = list(errors)
    reader = YamlReader(file, text, [(0, *path) for path, _ in field_errors])
    for _ in reader.read_objects():
        pass
    located = [
        ValidationError(file, _innermost_line(reader.lines, (0, *path)), format_path(path), message)
        for path, message in field_errors
    ]
    return sorted(located, key=lambda error: error.line)


def _innermost_line(lines: dict[FieldPath, int], path: FieldPath) -> int:
    """Return the line of a field, or of the closest parent that is in the file."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 0
