"""Installation of Dovetail's CustomResourceDefinitions in a live cluster."""

from dovetail.codec.crds.definitions import DEFINITIONS
from tests.live.cluster import Cluster


def install_crds(cluster: Cluster) -> None:
    """Apply the definitions and wait until the API server serves them."""
    definitions = [definition.encode() for definition in DEFINITIONS]
    cluster.apply(*definitions)
    names = [f"crd/{definition['metadata']['name']}" for definition in definitions]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
