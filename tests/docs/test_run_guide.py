"""The guide to ``run``: every option is in it, with its variable."""

from pathlib import Path

from dovetail.cli.run.command import run

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "run.md").read_text(encoding="utf-8")


def test_every_option_and_variable_is_explained() -> None:
    options = [name for option in run.params for name in option.opts]
    given = [option.envvar for option in run.params if option.envvar]
    variables = [name for one in given for name in ([one] if isinstance(one, str) else one)]

    assert [one for one in options if f"`{one}`" not in GUIDE] == []
    assert [one for one in variables if f"`{one}`" not in GUIDE] == []
