"""Files and directories named on the command line."""

from pathlib import Path

import pytest

from dovetail.cli.files import read_sources
from dovetail.errors import InvalidInputError


def test_a_directory_is_read_recursively_in_order_of_names(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.json", "a/y.yml", "notes.txt", ".git/config.yaml"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)

    sources = read_sources([str(tmp_path)])

    assert [text for _, text in sources] == [b"a/y.yml", b"a/z.json", b"b.yaml"]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("kind: Pod")

    sources = read_sources([str(file), str(tmp_path), str(file)])

    assert sources == [(str(file), b"kind: Pod")]


def test_every_path_that_cannot_be_read_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("kind: Pod")
    empty = tmp_path / "empty"
    empty.mkdir()

    with pytest.raises(InvalidInputError) as caught:
        read_sources([str(tmp_path / "wob.yaml"), str(empty), str(tmp_path / "else" / "gone")])

    assert [str(mistake) for mistake in caught.value.errors] == [
        f"{tmp_path}/wob.yaml file not found; did you mean '{tmp_path}/web.yaml'?",
        f"{empty} has no manifests (*.yaml, *.yml, *.json)",
        f"{tmp_path}/else/gone file not found",
    ]


def test_kustomizations_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [web.yaml]")
    (tmp_path / "web.yaml").write_text("kind: Pod")

    sources = read_sources([str(tmp_path)])

    assert [text for _, text in sources] == [b"kind: Pod"]


def test_a_helm_chart_is_one_error(tmp_path: Path) -> None:
    chart = tmp_path / "shop"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2")
    (chart / "templates" / "web.yaml").write_text("{{ .Values }}")

    with pytest.raises(InvalidInputError) as caught:
        read_sources([str(tmp_path)])

    assert str(caught.value) == (
        f"{chart} is a Helm chart; render it first: helm template {chart} | dovetail simulate -f -"
    )
