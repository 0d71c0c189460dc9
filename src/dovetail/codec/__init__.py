"""Codec: translation between wire formats (YAML, JSON, CSV) and the model.

Decoders report all errors of an input at once, with file, line and field.
``encode_crds`` generates the CustomResourceDefinitions.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.codec.crds.definitions import encode_crds
    from dovetail.codec.inputs.cluster_inputs import Inputs, read_inputs

__all__ = ["Inputs", "encode_crds", "read_inputs"]

_MODULES = {
    "encode_crds": "dovetail.codec.crds.definitions",
    "Inputs": "dovetail.codec.inputs.cluster_inputs",
    "read_inputs": "dovetail.codec.inputs.cluster_inputs",
}


def __getattr__(name: str) -> Any:
    # Lazy: submodules import this package.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
