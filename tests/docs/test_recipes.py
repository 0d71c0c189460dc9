"""The recipes for contributors name files and symbols that exist, and hold what they say."""

import ast
import re
from pathlib import Path

import pytest

from dovetail.aws.amifamily.registry import ami_family_provider
from dovetail.aws.interruption import messages
from dovetail.controllers import event_reasons
from dovetail.controllers.disruption.triggers import DisruptionTriggers
from dovetail.controllers.interruption.handler import get_response
from dovetail.controllers.registry import FACTORIES
from dovetail.core.disruption.method import Method
from dovetail.core.disruption.registry import METHODS, get_methods
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.eks.desired.interruption_queue import RULES
from dovetail.model.karpenter.ami_family import ALIAS_FAMILIES, AmiFamily
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.ports.cloudprovider import InterruptionKind
from dovetail.ports.telemetry import EventReason
from tests.support.controllers.environment import ControllerEnvironment

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dovetail"
PAGE = (ROOT / "docs" / "contributing" / "index.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\d+\. (.*(?:\n   .*)*)", PAGE, re.MULTILINE)
EACH_METHOD = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.decide.__module__)


def paths_in(step: str) -> list[str]:
    return [word for word in re.findall(r"`([\w./-]+)`", step) if "/" in word]


def locate(path: str) -> Path:
    return SOURCE / path if (SOURCE / path).exists() else ROOT / path


def text_of(path: Path) -> str:
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def test_every_path_of_a_recipe_exists() -> None:
    paths = [path for step in STEPS for path in paths_in(step)]

    assert len(paths) > 50
    assert [path for path in paths if not locate(path).exists()] == []


def test_every_symbol_of_a_step_is_in_one_of_its_files() -> None:
    missing = []
    for step in STEPS:
        texts = [text_of(locate(path)) for path in paths_in(step)]
        symbols = re.findall(r"`([A-Za-z_]\w{3,})`", step)
        missing += [symbol for symbol in symbols if texts and not any(symbol in text for text in texts)]

    assert missing == []


@pytest.mark.parametrize("family", AmiFamily)
def test_every_ami_family_has_a_provider_facts_and_an_alias(family: AmiFamily) -> None:
    provider = ami_family_provider(family)

    assert provider.name is family
    assert type(provider).__module__.startswith("dovetail.aws.amifamily.")
    assert ami_family_facts(family) is not None
    assert (family in ALIAS_FAMILIES.values()) == (family is not AmiFamily.CUSTOM)


@EACH_METHOD
def test_every_disruption_method_has_a_reason_and_an_explanation(method: Method) -> None:
    assert method in get_methods(method.reason)
    # A method without an explanation of its own explains by its decision on the whole cluster.
    assert method.explain is not None or method.needs_context


def test_every_disruption_method_on_the_whole_cluster_has_a_scan_interval() -> None:
    intervals = DisruptionTriggers(ControllerEnvironment().context()).scan_intervals

    assert set(intervals) == {method for method in METHODS if method.needs_context}


def test_every_disruption_reason_has_a_method() -> None:
    assert {method.reason for method in METHODS} == set(DisruptionReason)


@pytest.mark.parametrize("kind", InterruptionKind)
def test_every_interruption_kind_has_a_response(kind: InterruptionKind) -> None:
    assert (get_response(kind) is None) == (kind is InterruptionKind.NO_OP)


def test_every_decoded_event_reaches_the_queue_by_a_rule() -> None:
    decoded = {(source, detail_type) for _, source, detail_type in messages._DECODERS}

    assert {(source, detail_type) for _, source, detail_type in RULES} == decoded


def test_every_controller_factory_is_registered() -> None:
    defined = {
        f"{path.relative_to(SOURCE).with_suffix('').as_posix().replace('/', '.')}.{node.name}"
        for path in (SOURCE / "controllers").rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and re.fullmatch(r"(\w+_)?controller", node.name)
        if not node.name.startswith("_")
    }

    registered = {
        f"{factory.__module__.removeprefix('dovetail.')}.{factory.__name__}" for factory in FACTORIES
    }
    assert registered == defined


def test_every_event_reason_is_published() -> None:
    names = [name for name, value in vars(event_reasons).items() if isinstance(value, EventReason)]
    controllers = [
        path.read_text(encoding="utf-8")
        for path in (SOURCE / "controllers").rglob("*.py")
        if path.name != "event_reasons.py"
    ]

    assert names
    assert [name for name in names if not any(re.search(rf"\b{name}\b", text) for text in controllers)] == []
