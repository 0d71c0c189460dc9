"""The chart as helm makes objects of it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.helm import helm_binary

CHARTS = Path(__file__).parents[2] / "deploy" / "charts"
CHART, CRDS = CHARTS / "dovetail", CHARTS / "dovetail-crd"
NAMESPACE, RELEASE = "kube-system", "dovetail"
NEEDED = {
    "settings": {"clusterName": "demo"},
    "controller": {"image": {"repository": "registry.example/dovetail"}},
}
"""The two values that everybody must give."""


def helm(*arguments: str | Path, values: dict[str, Any] | None = None, **more: Any) -> str:
    """Run helm; an AssertionError has what it said when it failed."""
    done = try_helm(*arguments, values=values, **more)
    assert done.returncode == 0, f"helm {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def try_helm(
    *arguments: str | Path, values: dict[str, Any] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run helm where it may fail; ``values`` are given as a file."""
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
    """Lay values over each other, as helm does: maps are merged, all else is replaced."""
    result: dict[str, Any] = {}
    for one in many:
        for key, value in one.items():
            both_maps = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both_maps else value
    return result


def rendered_text(values: dict[str, Any]) -> str:
    """Return what would be applied, for these values beside the needed ones."""
    options = ("template", RELEASE, CHART, "--namespace", NAMESPACE)
    return helm(*options, values=merged(NEEDED, values))


def rendered(**values: Any) -> list[dict[str, Any]]:
    """Return the objects, for these values beside the needed ones."""
    return [one for one in yaml.safe_load_all(rendered_text(values)) if one]


def only(objects: list[dict[str, Any]], kind: str, name: str = RELEASE) -> dict[str, Any]:
    """Return the one object of a kind and name."""
    (found,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found
