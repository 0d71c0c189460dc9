"""The preview guide: its example, its limits and its dump command."""

import json
import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.cli.options.cluster_objects import MAKE_DUMP
from dovetail.preview.limits import parse_limit
from tests.preview.example import FILE, record_example

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "preview.md").read_text(encoding="utf-8")


def run(line: str) -> tuple[int, str]:
    words = shlex.split(line.replace("examples/", f"{ROOT}/examples/"))
    result = CliRunner().invoke(cli, words[1:], prog_name="dovetail")
    return result.exit_code, result.output.replace(f"{ROOT}/", "")


def test_the_output_of_the_example_is_that_of_the_guide() -> None:
    match = re.search(
        r"^    (dovetail preview .*)\n\n```\n(.*?)```\n\nThe exit code is 3", GUIDE, re.M | re.S
    )
    assert match is not None

    assert run(match[1]) == (3, match[2])


def test_the_dump_of_the_example_is_that_of_its_cluster() -> None:
    recorded = json.loads(FILE.read_text())["items"]
    current = json.loads(record_example())["items"]

    def describe(objects: list[dict[str, object]]) -> list[str]:
        return sorted(f"{obj['kind']}" for obj in objects)

    assert describe(recorded) == describe(current)


def test_every_limit_of_the_guide_is_valid() -> None:
    section = GUIDE.partition("## Limits")[2].partition("\n## ")[0]
    limits = [
        text for line in re.findall(r"^\| (`.*?) \|", section, re.M) for text in re.findall(r"`(.*?)`", line)
    ]

    assert len(limits) >= 12
    assert [parse_limit(text).text for text in limits] == limits


def test_the_dump_command_is_that_of_error_messages() -> None:
    assert f"\n{MAKE_DUMP}\n" in GUIDE
