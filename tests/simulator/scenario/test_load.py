"""Decoding of scenario files: every field, and errors with their lines."""

from datetime import timedelta
from functools import cache
from textwrap import dedent, indent
from typing import Any

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog, bundled_scenario, bundled_scenario_names
from dovetail.errors import InvalidInputError
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.simulator.latencies import CloudLatencies, KubeletLatencies
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import (
    Action,
    Apply,
    CapacityOutage,
    Delete,
    Interrupt,
    ManagedNodeGroup,
    Phase,
    Scale,
    Scenario,
    Until,
    Wait,
)

HEAD = "name: mine\nabout: a test\n"


@cache
def a_catalog() -> Catalog:
    few = ("m5.large", "t3.small")
    catalog = bundled_catalog()
    instance_types = tuple(
        instance_type for instance_type in catalog.instance_types if instance_type.name in few
    )
    return msgspec.structs.replace(catalog, instance_types=instance_types)


def read(text: str, **more: Any) -> Scenario:
    return read_scenario("mine.yaml", (HEAD + dedent(text)).encode(), **more)


def validation_errors(text: str, *, head: str = HEAD) -> list[str]:
    """The validation errors of a scenario, without the file name."""
    data = (head + dedent(text)).encode()
    with pytest.raises(InvalidInputError) as invalid:
        read_scenario("mine.yaml", data, catalog=a_catalog())
    return [str(error).removeprefix("mine.yaml:") for error in invalid.value.errors]


def doing(actions: str) -> str:
    """A scenario whose only phase has these actions; the first is on line 6."""
    return f"phases:\n- name: one\n  do:\n{indent(dedent(actions).strip(), '  ')}\n"


def action(text: str) -> Action:
    [phase] = read(doing(f"- {text}")).phases
    [action] = phase.actions
    return action


# Decoding.


def test_a_scenario_needs_only_name_and_about() -> None:
    scenario = read("")

    assert scenario == Scenario(name="mine", about="a test")
    assert (scenario.region, scenario.seed, scenario.node_group, scenario.phases) == (
        "us-east-1",
        1,
        None,
        (),
    )


def test_every_field_is_decoded() -> None:
    scenario = read(
        """
        region: eu-west-1
        seed: 7
        home: {count: 2, instanceType: m5.large}
        manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]
        cloud: {boot: 60, bootJitter: 0.5}
        kubelet: {nodeReady: 10, containerStart: 0}
        phases:
        - name: one
          do: [{wait: 1m}]
          until: {running: 3, nodes: 4}
          limit: 1h30m
        - name: two
        """,
        catalog=a_catalog(),
    )

    assert scenario == Scenario(
        name="mine",
        about="a test",
        region="eu-west-1",
        seed=7,
        node_group=ManagedNodeGroup(count=2, instance_type="m5.large"),
        objects=({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},),
        cloud=CloudLatencies(boot=timedelta(minutes=1), boot_jitter=timedelta(seconds=0.5)),
        kubelet=KubeletLatencies(node_ready=timedelta(seconds=10), container_start=timedelta()),
        phases=(
            Phase(
                name="one",
                actions=(Wait(timedelta(minutes=1)),),
                until=Until(running=3, nodes=4),
                limit=timedelta(minutes=90),
            ),
            Phase(name="two", limit=timedelta(minutes=15)),
        ),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "scale: {name: web, replicas: 3}",
            Scale(kind="Deployment", name="web", namespace="default", replicas=3),
        ),
        (
            "scale: {kind: StatefulSet, name: db, namespace: shop, replicas: 0}",
            Scale(kind="StatefulSet", name="db", namespace="shop", replicas=0),
        ),
        ("delete: {kind: Node}", Delete(kind="Node")),
        ("delete: {kind: Node, count: 3}", Delete(kind="Node", count=3)),
        ("delete: {kind: Pod, name: web, namespace: shop}", Delete(kind="Pod", name="web", namespace="shop")),
        ("interrupt: {share: 0.5}", Interrupt(0.5)),
        ("interrupt: {share: 1}", Interrupt(1.0)),
        ("sellOut: {}", CapacityOutage()),
        (
            "sellOut: {types: 'm5.*', zones: us-east-1a, capacityTypes: spot, lasts: 10m}",
            CapacityOutage(
                types="m5.*", zones="us-east-1a", capacity_types="spot", duration=timedelta(minutes=10)
            ),
        ),
        ("sellOut: {types: 'm5.*', lasts: Never}", CapacityOutage(types="m5.*")),
        ("wait: 2m30s", Wait(timedelta(seconds=150))),
        (
            "apply: [{apiVersion: v1, kind: Namespace, metadata: {name: a}}]",
            Apply(({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},)),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_action_is_decoded(text: str, expected: Action) -> None:
    assert action(text) == expected


def test_a_phase_may_have_a_limit_of_zero() -> None:
    [phase] = read("phases: [{name: now, limit: 0s}]").phases

    assert phase.limit == timedelta()


def test_objects_of_older_api_versions_are_converted() -> None:
    [action] = read(
        """
        manifests:
        - apiVersion: karpenter.sh/v1beta1
          kind: NodePool
          metadata: {name: default}
          spec:
            template:
              spec:
                nodeClassRef: {name: default}
                requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
        """
    ).objects

    assert action["apiVersion"] == "karpenter.sh/v1"
    assert action["kind"] == "NodePool"


@pytest.mark.parametrize("name", bundled_scenario_names())
def test_the_bundled_scenarios_are_valid_for_the_bundled_catalogue(name: str) -> None:
    scenario = read_scenario(name, bundled_scenario(name), catalog=bundled_catalog())

    assert scenario.name == name
    assert scenario.phases


# Validation errors.


def test_name_and_about_are_required() -> None:
    assert validation_errors("seed: 1\n", head="") == ["1 name: is missing", "1 about: is missing"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("color: red", "3 color: no such field; known fields: name, about, region, "),
        ("phase: []", "3 phase: no such field; did you mean 'phases'?"),
        ("1: 2", "3 1: no such field; known fields: "),
        ("region: us-esat-1", "3 region: 'us-esat-1' is not a valid region of the catalogue"),
        ("region: 5", "3 region: must be text, not 5"),
        ("seed: -1", "3 seed: is -1, but must be at least 0"),
        ("seed: many", "3 seed: must be a whole number, not 'many'"),
        ("home: {}", "3 home.instanceType: is missing"),
        ("home: {instanceType: m5.larg}", "3 home.instanceType: 'm5.larg' is not a valid instance type in"),
        ("home: {instanceType: m5.large, count: 0}", "3 home.count: is 0, but must be at least 1"),
        ("home: {instanceType: m5.large, size: 3}", "3 home.size: no such field; known fields: count"),
        ("cloud: {boot: soon}", "3 cloud.boot: 'soon' is not a number of seconds"),
        ("cloud: {boot: true}", "3 cloud.boot: True is not a number of seconds"),
        ("cloud: {boot: -1}", "3 cloud.boot: -1 is not a number of seconds"),
        ("cloud: {boot: .nan}", "3 cloud.boot: '.nan' is not a number of seconds"),
        ("cloud: {boot: 90000}", "3 cloud.boot: 90000 is not a number of seconds"),
        ("cloud: {weather: 1}", "3 cloud.weather: no such field; known fields: createFleet, "),
        ("kubelet: {nodeRedy: 1}", "3 kubelet.nodeRedy: no such field; did you mean 'nodeReady'?"),
        ("kubelet: fast", "3 kubelet: must be a map, not 'fast'"),
        ("manifests: {}", "3 manifests: must be a list, not a map"),
        ("manifests: [x]", "3 manifests[0]: must be a map, not 'x'"),
        ("manifests: [{}]", "3 manifests[0]"),
        (
            "manifests: [{apiVersion: v1, kind: Gadget, metadata: {name: a}}]",
            "3 manifests[0]: v1 Gadget is not served here",
        ),
        ("manifests: [{apiVersion: v1, kind: ConfigMap}]", "3 manifests[0].metadata.name: is missing"),
        (
            "manifests: [{apiVersion: v1, kind: Secret, metadata: {name: 3}}]",
            "3 manifests[0].metadata.name: must be text, not 3",
        ),
        ("phases: none", "3 phases: must be a list, not 'none'"),
        ("phases: [{}]", "3 phases[0].name: is missing"),
        ("phases: [{name: a, unless: 1}]", "3 phases[0].unless: no such field; "),
        ("phases: [{name: a, do: {}}]", "3 phases[0].do: must be a list, not a map"),
        ("phases: [{name: a, until: 5}]", "3 phases[0].until: must be a map, not 5"),
        ("phases: [{name: a, until: {pods: 5}}]", "3 phases[0].until.pods: no such field; known fields"),
        ("phases: [{name: a, until: {running: many}}]", "3 phases[0].until.running: must be a "),
        ("phases: [{name: a, until: {nodes: -1}}]", "3 phases[0].until.nodes: is -1, but must be"),
        ("phases: [{name: a, limit: 90}]", "3 phases[0].limit: 90 is not a duration; did you mean"),
        ("phases: [{name: a, limit: Never}]", "3 phases[0].limit: 'Never' is not a duration"),
    ],
    ids=lambda value: value if value[0] != "3" else "",
)
def test_a_validation_error_has_its_line_and_field(text: str, expected: str) -> None:
    [first] = validation_errors(text)

    assert first.startswith(expected)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("x", "", "must be a map, not 'x'"),
        ("{}", "", "needs exactly one of apply, scale, load, delete, interrupt, sellOut, thin"),
        ("{wait: 1s, delete: {kind: Node}}", "", "needs exactly one of apply, scale, "),
        ("scael: {}", ".scael", "no such field; did you mean 'scale'?"),
        ("reboot: {}", ".reboot", "no such field; known fields: apply, scale, "),
        ("scale: {replicas: 1}", ".scale.name", "is missing"),
        ("scale: {name: web}", ".scale.replicas", "is missing"),
        ("scale: {name: web, replicas: -1}", ".scale.replicas", "is -1, but must be at least 0"),
        ("scale: {name: web, replicas: 1, kind: Job}", ".scale.kind", "'Job' is not a valid scalable kind"),
        ("scale: {name: web, replicas: 1, by: 2}", ".scale.by", "no such field; known fields: kind"),
        ("delete: {}", ".delete.kind", "is missing"),
        ("delete: {kind: Secret}", ".delete.kind", "'Secret' is not a valid deletable kind"),
        ("delete: {kind: Node, count: 0}", ".delete.count", "is 0, but must be at least 1"),
        ("delete: {kind: Node, force: true}", ".delete.force", "no such field; known fields: kind"),
        ("delete: {kind: Node, name: a, count: 2}", ".delete.count", "cannot be combined with name"),
        ("interrupt: {}", ".interrupt.share", "None is not a share; use a number above 0"),
        ("interrupt: {share: 0}", ".interrupt.share", "0 is not a share"),
        ("interrupt: {share: 1.1}", ".interrupt.share", "1.1 is not a share"),
        ("interrupt: {share: true}", ".interrupt.share", "True is not a share"),
        ("interrupt: {share: half}", ".interrupt.share", "'half' is not a share"),
        ("interrupt: {share: .nan}", ".interrupt.share", "'.nan' is not a share"),
        ("interrupt: {share: 1, of: x}", ".interrupt.of", "no such field; known fields: share"),
        ("sellOut: {types: m5.lrage}", ".sellOut.types", "'m5.lrage' matches no instance type; did"),
        ("sellOut: {zones: 'eu-*'}", ".sellOut.zones", "'eu-*' matches no zone"),
        (
            "sellOut: {capacityTypes: on_demand}",
            ".sellOut.capacityTypes",
            "'on_demand' matches no capacity type; did you mean 'on-demand'?",
        ),
        ("sellOut: {lasts: forever}", ".sellOut.lasts", "'forever' is not a duration"),
        ("sellOut: {until: 5m}", ".sellOut.until", "no such field; known fields: types"),
        ("wait: 90", ".wait", "90 is not a duration; did you mean '90s'?"),
        ("wait:", ".wait", "None is not a duration"),
        ("wait: Never", ".wait", "'Never' is not a duration"),
        ("apply: {kind: Pod}", ".apply", "must be a list, not a map"),
    ],
    ids=lambda value: value,
)
def test_a_validation_error_in_an_action_has_its_field(text: str, field: str, expected: str) -> None:
    [first] = validation_errors(doing(f"- {text}"))

    assert first.startswith(f"6 phases[0].do[0]{field}: {expected}")


def test_a_value_that_should_be_a_map_has_no_fields() -> None:
    assert validation_errors("home: 3") == ["3 home: must be a map, not 3", "3 home.instanceType: is missing"]


def test_a_phase_that_waits_beyond_its_limit_is_invalid() -> None:
    usual = validation_errors(doing("- wait: 10m\n- wait: 6m"))
    own = validation_errors("phases:\n- name: a\n  do: [{wait: 2m}]\n  limit: 1m\n")

    assert usual[0].endswith("phases[0].limit: is 15m, but the phase waits for 16m")
    assert own == ["6 phases[0].limit: is 1m, but the phase waits for 2m"]


def test_objects_are_validated_in_manifests_and_in_actions() -> None:
    broken = """\
        - apiVersion: v1
          kind: Pod
          metadata: {name: a}
          spec:
            containers:
            - {name: main, image: app, resources: {requests: {cpu: lots}}}
        """
    early = "manifests:\n" + dedent(broken)
    late = doing("- apply:\n" + indent(dedent(broken), "  "))

    [there] = validation_errors(early)
    [here] = validation_errors(late)

    path = "spec.containers[0].resources.requests.cpu: 'lots'"
    assert there.startswith(f"9 manifests[0].{path}")
    assert here.startswith(f"12 phases[0].do[0].apply[0].{path}")


def test_all_validation_errors_are_reported_in_order_of_lines() -> None:
    errors = validation_errors(
        """\
        seed: -1
        phases:
        - name: one
          do:
          - scale: {replicas: many}
          - wait: 5
        - until: {running: 1}
          limits: 5m
        cloud: {boot: x}
        """
    )

    assert [error.split(": ")[0] for error in errors] == [
        "3 seed",
        "7 phases[0].do[0].scale.name",
        "7 phases[0].do[0].scale.replicas",
        "8 phases[0].do[1].wait",
        "9 phases[1].name",
        "10 phases[1].limits",
        "11 cloud.boot",
    ]


def test_without_a_catalogue_zones_and_instance_types_are_not_validated() -> None:
    scenario = read("region: mars\nhome: {instanceType: rover}\n" + doing("- sellOut: {types: rover}"))

    assert scenario.region == "mars"
    assert scenario.node_group == ManagedNodeGroup(count=1, instance_type="rover")


def test_a_scenario_is_one_document() -> None:
    assert validation_errors("---\nname: other\n") == [
        "mine.yaml has several documents; a scenario is one document"
    ]
    [nothing] = validation_errors("", head="")
    assert nothing.startswith("mine.yaml ")


def test_invalid_yaml_is_a_validation_error() -> None:
    [error] = validation_errors("phases: [\n")

    assert error[0].isdigit()
