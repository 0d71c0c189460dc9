"""Controllers: observe the cache, decide in ``core``, act through ports, report.

``registry.py`` lists all controllers. ``ControllerContext`` holds their
dependencies, ``ControllerManager`` runs them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.controllers.context import ControllerContext
    from dovetail.controllers.registry import controllers
    from dovetail.controllers.runtime.manager import ControllerManager

__all__ = ["ControllerContext", "ControllerManager", "controllers"]

_MODULES = {
    "ControllerContext": "dovetail.controllers.context",
    "ControllerManager": "dovetail.controllers.runtime.manager",
    "controllers": "dovetail.controllers.registry",
}


def __getattr__(name: str) -> Any:
    # Lazy: the registry imports every controller, and they import this package.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
