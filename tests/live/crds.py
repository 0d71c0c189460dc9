"""The CustomResourceDefinitions of the kinds that Dovetail works with, in a live cluster."""

from dovetail.codec.crds.definitions import DEFINITIONS
from tests.live.cluster import Cluster


def install_crds(cluster: Cluster) -> None:
    """Apply the definitions and wait until the API server serves them."""
    definitions = [one.written() for one in DEFINITIONS]
    cluster.apply(*definitions)
    names = [f"crd/{one['metadata']['name']}" for one in definitions]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
