"""Diagnosis of an installation: gather facts once, then run pure checks.

Each check has a stable code, the facts it needs, and a fix for every finding.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.doctor.check import Check
    from dovetail.doctor.finding import Finding
    from dovetail.doctor.run import run_checks

__all__ = ["Check", "Finding", "run_checks"]

_MODULES = {
    "Check": "dovetail.doctor.check",
    "Finding": "dovetail.doctor.finding",
    "run_checks": "dovetail.doctor.run",
}


def __getattr__(name: str) -> Any:
    # Lazy: the checks need packages that `dovetail migrate`, which uses other modules here, does not.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
