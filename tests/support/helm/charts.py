"""The Helm chart, rendered by helm."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.helm.binary import helm_binary

CHARTS = Path(__file__).parents[3] / "deploy" / "charts"
CHART, CRDS = CHARTS / "dovetail", CHARTS / "dovetail-crd"
NAMESPACE, RELEASE = "kube-system", "dovetail"
REQUIRED_VALUES = {
    "settings": {"clusterName": "demo"},
    "controller": {"image": {"repository": "registry.example/dovetail"}},
}
"""The two required values."""


def helm(*arguments: str | Path, values: dict[str, Any] | None = None, **more: Any) -> str:
    """Run helm; an AssertionError contains its output if it fails."""
    done = try_helm(*arguments, values=values, **more)
    assert done.returncode == 0, f"helm {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def try_helm(
    *arguments: str | Path, values: dict[str, Any] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run helm, which may fail; ``values`` are passed on stdin."""
    given = ["--values", "-"] if values is not None else []
    return subprocess.run(
        [helm_binary(), *arguments, *given],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **more,
    )


def merged(*many: dict[str, Any]) -> dict[str, Any]:
    """Merge values as helm does: maps are merged, other values are replaced."""
    result: dict[str, Any] = {}
    for values in many:
        for key, value in values.items():
            both_maps = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both_maps else value
    return result


def rendered_text(values: dict[str, Any]) -> str:
    """Return the rendered manifests as text, with these and the required values."""
    options = ("template", RELEASE, CHART, "--namespace", NAMESPACE)
    return helm(*options, values=merged(REQUIRED_VALUES, values))


def rendered(**values: Any) -> list[dict[str, Any]]:
    """Return the rendered objects, with these and the required values."""
    return [manifest for manifest in yaml.safe_load_all(rendered_text(values)) if manifest]


def only(objects: list[dict[str, Any]], kind: str, name: str = RELEASE) -> dict[str, Any]:
    """Return the only object of a kind and name."""
    (match,) = [
        manifest for manifest in objects if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)
    ]
    return match
