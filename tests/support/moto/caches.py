"""Caches for moto and the SDK: they compute these values again for each request or session."""

from functools import cache

import moto.backends
import moto.core.responses
import moto.ec2.models.amis
from botocore.loaders import JSONFileLoader

_load_model = cache(JSONFileLoader().load_file)
_modules = tuple(moto.backends.list_of_moto_modules())


def install_caches() -> None:
    """Use the caches in this process."""
    # A session parses the models of its services: 0.1 s for EC2.
    JSONFileLoader.load_file = lambda _, path: _load_model(path)  # type: ignore[method-assign]
    # A request lists moto's folders twice, and inspects the class that handles it.
    moto.backends.list_of_moto_modules = lambda: _modules
    moto.core.responses.method_names_from_class = cache(moto.core.responses.method_names_from_class)  # type: ignore[attr-defined]
    # A reset creates a thousand AMIs of the region from a file, beside 44 common ones.
    moto.ec2.models.amis.load_resource = lambda _: []  # type: ignore[attr-defined]
