"""Reading request bodies: JSON, and YAML for server-side apply."""

from typing import Any, Final

import msgspec
import yaml

from dovetail.ports.kube_errors import BadRequest

JSON: Final = "application/json"
_DEEPEST: Final = 200
_OPENING: Final = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_CLOSING: Final = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
APPLY: Final = ("application/apply-patch+yaml", "application/yaml")


class _Loader(yaml.CSafeLoader):
    """Knows only what JSON knows: a date stays the text it was written as."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_json(data: bytes) -> Any:
    """Return what a JSON body says."""
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"the body of the request is no JSON: {error}") from error
    except RecursionError as error:
        raise BadRequest("the body of the request is nested too deeply") from error


def read_yaml(data: bytes) -> Any:
    """Return what a YAML or JSON body says, as JSON would say it."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        text = data.decode()
        _check_tokens(text)
        # There and back: what JSON cannot say is refused or becomes what it can.
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader
        return msgspec.json.decode(msgspec.json.encode(value))
    except (yaml.YAMLError, UnicodeError, ValueError, TypeError, RecursionError) as error:
        raise BadRequest(f"the body of the request is no YAML: {_short(error)}") from error


def _check_tokens(text: str) -> None:
    """Refuse what would be too much for the parser: it trusts its input."""
    depth = 0
    for token in yaml.scan(text, _Loader):
        # A few anchors can stand for more than fits into memory.
        if isinstance(token, yaml.AliasToken):
            raise BadRequest("the body of the request has YAML aliases, which are not taken here")
        depth += isinstance(token, _OPENING)
        depth -= isinstance(token, _CLOSING)
        if depth > _DEEPEST:
            raise BadRequest("the body of the request is nested too deeply")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
