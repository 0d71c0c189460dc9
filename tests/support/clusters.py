"""cluster.yaml files for tests: the examples, and small ones made on the spot."""

from pathlib import Path
from typing import Any

import yaml

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.plan.resource import Account
from dovetail.eks.validation.load import read_spec

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
ACCOUNT = Account(account="123456789012", region="us-east-1")


def an_example(name: str) -> ClusterSpec:
    """Return one of the ready clusters."""
    path = next(one for one in EXAMPLES if one.stem == name)
    return read_spec(path.name, path.read_bytes())


def a_file(**fields: Any) -> bytes:
    """Return a cluster.yaml that is fine, but for the fields given; None leaves one out."""
    whole: dict[str, Any] = {
        "name": "dev",
        "region": "us-east-1",
        "version": "1.33",
        "home": "managed-node-group",
        "controller": {"image": "registry.example.com/dovetail:1"},
        "nodePools": [{"name": "default"}],
        **fields,
    }
    kept = {key: value for key, value in whole.items() if value is not None}
    return yaml.safe_dump(kept, sort_keys=False).encode()


def a_cluster(**fields: Any) -> ClusterSpec:
    """Return the cluster of such a file."""
    return read_spec("cluster.yaml", a_file(**fields))
