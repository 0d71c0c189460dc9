"""The guide of ``run`` lists every option and environment variable."""

from pathlib import Path

from dovetail.cli.run.command import run

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "run.md").read_text(encoding="utf-8")


def test_every_option_and_environment_variable_is_in_the_guide() -> None:
    options = [name for option in run.params for name in option.opts]
    envvars = [option.envvar for option in run.params if option.envvar]
    variables = [name for names in envvars for name in ([names] if isinstance(names, str) else names)]

    assert [name for name in options if f"`{name}`" not in GUIDE] == []
    assert [name for name in variables if f"`{name}`" not in GUIDE] == []
