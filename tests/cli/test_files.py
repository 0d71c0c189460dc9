"""Files and directories named on the command line."""

import os
import threading
from pathlib import Path

import pytest

from dovetail.cli.files import LIMIT_VARIABLE, read_bytes, read_sources
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
        f"{tmp_path}/wob.yaml does not exist; did you mean '{tmp_path}/web.yaml'?",
        f"{empty} has no manifests (*.yaml, *.yml, *.json)",
        f"{tmp_path}/else/gone does not exist",
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


def test_an_endless_file_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "3")

    with pytest.raises(InvalidInputError, match="/dev/zero is larger than 3 MiB; set DOVETAIL_MAX_INPUT_MIB"):
        read_sources(["/dev/zero"])


def test_the_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "big.yaml"
    file.write_bytes(b"#" * (2 << 20))

    monkeypatch.setenv(LIMIT_VARIABLE, "1")
    with pytest.raises(InvalidInputError):
        read_sources([str(file)])
    monkeypatch.setenv(LIMIT_VARIABLE, "2")

    assert len(read_sources([str(file)])[0][1]) == 2 << 20


@pytest.mark.parametrize("value", ["many", "-1", "0"])
def test_an_invalid_limit_is_named(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "web.yaml").write_text("kind: Pod")
    monkeypatch.setenv(LIMIT_VARIABLE, value)

    with pytest.raises(InvalidInputError, match=f"{LIMIT_VARIABLE} must be a number of MiB, not '{value}'"):
        read_sources([str(tmp_path)])


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe, content = tmp_path / "pipe", b"kind: Pod\n" * 50_000
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()

    sources = read_sources([str(pipe)])
    writer.join()

    assert sources == [(str(pipe), content)]


def test_a_pipe_without_a_writer_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InvalidInputError, match="is a pipe that nothing was written to for"):
        read_bytes(str(tmp_path / "pipe"), pipe_timeout=0.05)
