"""Find words outside the project's vocabulary in names, docstrings, comments, messages and pages.

``python -m tests.docs.vocabulary PATH…`` lists them, for files and folders. The word to use instead is in
``docs/glossary.md``; CONTRIBUTING.md has the rules.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PROSE: Final = re.compile(
    r"\b("
    r"nobody|somebody|anybody|everybody|whoever|whom|whosoever|whatsoever"
    r"|tell|tells|told|telling|heard|says so|say so"
    r"|buy|buys|buying|bought|purchase[sd]?|purchasing|giv(?:e|es|en|ing) back|gave back|let go|lets go"
    r"|(?<!state )machines?(?! learning|-readable)|dear|dearer|dearest|thrift\w*|reckon\w*"
    r"|mend|mends|mended|mending"
    r"|patience|patient|patiently|setbacks?|shelf|shelves|desk|dice|chance|lodging|undertakings?|purse"
    r"|sightings?|scarce|scarcity|spared|spares?(?! capacity)|ailing|ailments?|checkups?|rehears\w+"
    r"|stirs?|stirring"
    r"|hire[sd]?|hiring|prospects?|spoken for|lifts? the|misplaced|leavings|chronicle|appointments?|ripe"
    r"|weigh|weighs|weighed|weighing|what if|whatif|wish|wishes|promis(?:e|es|ed|ing)|picky|the town"
    r"|unmake|unmade|amends?|amended|made to go|is asked to go|on its way|looks? round|look again"
    r"|looks again|time is up|poor zones?|it pays|put away"
    r")\b",
    re.IGNORECASE,
)
"""Words and idioms that the vocabulary replaces, in docstrings, comments, messages and pages."""

NAME_WORDS: Final = frozenset(
    """
    nobody somebody whoever whom tell tells told telling heard buy buys buying bought purchase purchases
    purchased machine machines dear dearer dearest thrifty reckon reckoned mend mended patience patient
    setback setbacks shelf shelves desk dice chance lodging undertaking undertakings purse sighting
    sightings scarce scarcity spared ailing ailment ailments checkup checkups rehearse rehearsal
    rehearsing stir stirs stirring hire hired hiring prospect prospects misplaced leavings chronicle
    appointment appointments ripe weigh weighed weighing whatif wish wishes promise
    promises promised promising
    picky town unmake unmade amend amended door visit visiting visitor noticing parting retire retired
    retiring deal deals dealt scene picture ground announce announcement announcements remark remarks
    verdict verdicts mirror parted bury buried dealer inflight judge board allowance ample affordable
    variety danger alarm site trouble fault faults engine manner overdue stock sale pace stamping keeper
    remembered remembering unfit spoken sweeping
    """.split()
)
"""Parts of identifiers that the vocabulary replaces."""

NAME_EXCEPTIONS: Final = frozenset({"machine_id", "machineID", "machine_readable", "convert_machine"})
"""Names that the field itself uses."""

STRING_EXCEPTIONS: Final = frozenset({"Machine", "spared", "buying"})
"""API: a kind of Karpenter's v1alpha5, a code of ``explain``, a field of ``demo -o json``."""

PROSE_EXCEPTIONS: Final = re.compile(r"``[^`]+``|(?:v1alpha5|AWSNodeTemplate and|kind:) Machine")
"""Code in docstrings and comments, and the kind that NodeClaims had in v1alpha5."""

FIRST_WORDS: Final = frozenset("What How Whose Whether Who Which Tell Hand Say Let Have Give Look".split())
"""First words of a docstring that say neither what a thing is nor what it does."""

VARIABLES: Final = frozenset({"one", "it", "told", "found", "made"})
"""Variables that do not say what they hold."""

MAX_FIRST_LINE: Final = 79
"""Length of a docstring's first line, in characters."""

CODE: Final = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
"""Code on a page: names and output of programs, whose own files are checked instead."""


class Violation(NamedTuple):
    """A word that the vocabulary replaces, and its position."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def violations(path: Path) -> Iterator[Violation]:
    """Yield the words of a Python file, a Markdown page or another text that the vocabulary replaces."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        # Line breaks stay, so that line numbers are right.
        prose = CODE.sub(lambda code: "\n" * code.group().count("\n"), source)
        yield from _in_prose(path, 1, prose, "page")
        return
    if path.suffix != ".py":
        yield from _in_prose(path, 1, source, "text")
        return
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = _docstring_nodes(nodes)
    yield from _in_docstrings(path, docstrings)
    yield from _in_names(path, nodes)
    yield from _in_strings(path, nodes, {id(node) for node in docstrings})
    yield from _in_comments(path, source)


def files(*roots: Path) -> Iterator[Path]:
    """Yield all Python files and Markdown pages below the roots, in order."""
    for root in roots:
        yield from sorted((*root.rglob("*.py"), *root.rglob("*.md"))) if root.is_dir() else [root]


def _in_prose(path: Path, line: int, text: str, kind: str) -> Iterator[Violation]:
    text = PROSE_EXCEPTIONS.sub("", text)
    for match in PROSE.finditer(text):
        offset = text.count("\n", 0, match.start())
        yield Violation(path, line + offset, f"{kind}: '{match.group().lower()}'")


def _in_comments(path: Path, source: str) -> Iterator[Violation]:
    # Tokens are slow: only for a file with such a word in a line that may have a comment.
    lines = (line for line in source.splitlines() if "#" in line)
    if not any(PROSE.search(PROSE_EXCEPTIONS.sub("", line)) for line in lines):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _in_prose(path, token.start[0], token.string, "comment")


def _docstring_nodes(nodes: list[ast.AST]) -> list[ast.Constant]:
    """Return docstrings, also those that follow an attribute or a constant."""
    bodies = (getattr(node, "body", None) for node in nodes)
    values = (
        child.value
        for body in bodies
        if isinstance(body, list)
        for child in body
        if isinstance(child, ast.Expr)
    )
    return [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def _in_docstrings(path: Path, docstrings: list[ast.Constant]) -> Iterator[Violation]:
    for node in docstrings:
        text = str(node.value)
        yield from _in_prose(path, node.lineno, text, "docstring")
        first = text.strip().split("\n")[0]
        if first.split(" ")[0].strip(",.:;") in FIRST_WORDS:
            yield Violation(path, node.lineno, f"docstring begins with '{first.split()[0]}'")
        if len(first) > MAX_FIRST_LINE and "\n" in text.strip():
            yield Violation(path, node.lineno, f"first line of {len(first)} characters")


def _in_strings(path: Path, nodes: list[ast.AST], docstrings: set[int]) -> Iterator[Violation]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            if node.value not in STRING_EXCEPTIONS:
                yield from _in_prose(path, node.lineno, node.value, "string")


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _in_names(path: Path, nodes: list[ast.AST]) -> Iterator[Violation]:
    for line, name, variable in _bound_names(nodes):
        if name.strip("_") in NAME_EXCEPTIONS:
            continue
        if bad := NAME_WORDS.intersection(_words(name)):
            yield Violation(path, line, f"name: {name} ({', '.join(sorted(bad))})")
        elif variable and name in VARIABLES:
            yield Violation(path, line, f"variable: {name}")
    if bad := NAME_WORDS.intersection(path.stem.split("_")):
        yield Violation(path, 1, f"module: {path.stem} ({', '.join(sorted(bad))})")


def _bound_names(nodes: list[ast.AST]) -> Iterator[tuple[int, str, bool]]:
    """Yield line, name and whether it is a variable, for every name that the file binds."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name, False
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id, True
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr, False
        elif isinstance(node, ast.alias) and node.asname:
            yield getattr(node, "lineno", 1), node.asname, False


if __name__ == "__main__":
    for checked in files(*map(Path, sys.argv[1:])):
        sys.stdout.writelines(f"{violation}\n" for violation in violations(checked))
