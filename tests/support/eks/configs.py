"""cluster.yaml files for tests: the examples, and small generated ones."""

from pathlib import Path
from typing import Any

import yaml

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.plan.resource import Account
from dovetail.eks.validation.load import load_config

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
ACCOUNT = Account(account="123456789012", region="us-east-1")


def an_example(name: str) -> ClusterConfig:
    """Return the configuration of an example."""
    path = next(path for path in EXAMPLES if path.stem == name)
    return load_config(path.name, path.read_bytes())


def a_file(**fields: Any) -> bytes:
    """Return a valid cluster.yaml with these fields; None omits a field."""
    document: dict[str, Any] = {
        "name": "dev",
        "region": "us-east-1",
        "version": "1.33",
        "home": "managed-node-group",
        "controller": {"image": "registry.example.com/dovetail:1"},
        "nodePools": [{"name": "default"}],
        **fields,
    }
    fields_set = {key: value for key, value in document.items() if value is not None}
    return yaml.safe_dump(fields_set, sort_keys=False).encode()


def a_cluster(**fields: Any) -> ClusterConfig:
    """Return the configuration of such a file."""
    return load_config("cluster.yaml", a_file(**fields))
