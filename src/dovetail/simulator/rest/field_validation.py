"""What becomes of fields that a kind does not have."""

from enum import StrEnum

from dovetail.ports.kube_errors import BadRequest, Invalid
from dovetail.simulator.rest.encoding.query_options import Query


class Strictness(StrEnum):
    """The values of ``fieldValidation``; unknown fields are dropped unless it is strict."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"

    def warnings(self, kind: str, unknown: list[str]) -> list[str]:
        """Return what to warn of; BadRequest where a warning is not enough."""
        told = [f'unknown field "{one}"' for one in unknown]
        if told and self is Strictness.STRICT:
            raise BadRequest(
                f"{kind} cannot be handled as a {kind}: strict decoding error: {', '.join(told)}"
            )
        return told if self is Strictness.WARN else []


def strictness(query: Query) -> Strictness:
    """Return what the caller asked for; kubectl asks to be strict, others for nothing."""
    value = query.get("fieldValidation", "") or Strictness.WARN
    if value not in list(Strictness):
        raise Invalid(f"fieldValidation: Unsupported value: {value!r}")
    return Strictness(value)
