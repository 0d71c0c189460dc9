"""Control characters in names and messages that others wrote."""

import pytest
from rich.text import Text

from dovetail.cli.output.console import write, write_lines, write_note
from dovetail.cli.output.control_characters import clean_text, replace_control_characters

ATTACK = "web\x1b[31m\x1b]0;title\x9c\x9b2J\x7f\u202eetad"


def test_escapes_of_names_are_shown_as_question_marks_on_stdout_and_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(ATTACK)
    write_lines([Text(ATTACK, style="bold")])
    write_note(ATTACK)

    shown = "web?[31m?]0;title??2J??etad\n"
    assert capsys.readouterr() == (shown * 2, shown)


def test_carriage_return_backspace_and_bell_are_replaced_too() -> None:
    assert replace_control_characters("a\r\b\x07b") == "a???b"


def test_newlines_tabs_and_letters_of_all_languages_stay() -> None:
    text = "NodePool größe\n\t名前 ━━╸── …"

    assert replace_control_characters(text) == text


def test_styles_stay_where_they_are() -> None:
    text = Text.assemble("a\x1b", ("b", "red"))

    assert clean_text(text) == Text.assemble("a?", ("b", "red"))
