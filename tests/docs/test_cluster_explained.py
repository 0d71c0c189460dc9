"""The page about the parts of a cluster agrees with what is created and reported."""

import re
from pathlib import Path

from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.eks.config.json_schema import json_schema
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.desired.iam_roles import NODE_POLICIES
from dovetail.eks.validation.iam import ACCESS_POLICIES
from dovetail.eks.validation.load import load_config
from dovetail.errors import InvalidInputError
from tests.support.eks.configs import a_cluster, an_example

PAGE = (Path(__file__).parents[2] / "docs/guides/cluster-explained.md").read_text(encoding="utf-8")


def chapter(title: str) -> str:
    return re.split(r"^##+ ", PAGE.partition(f" {title}\n")[2], flags=re.MULTILINE)[0]


def first_column(title: str) -> set[str]:
    rows = [line.split("|")[1].strip() for line in chapter(title).splitlines() if line.startswith("|")]
    return {row.strip("`") for row in rows[2:]}


def test_every_add_on_has_its_purpose() -> None:
    assert first_column("Add-ons") == set(json_schema()["$defs"]["Addons"]["properties"])


def test_every_access_policy_is_explained_and_the_example_is_valid() -> None:
    access = chapter("People").partition("```yaml\n")[2].partition("```")[0]
    base = "name: a\nregion: us-east-1\nversion: '1.33'\nhome: fargate\nnodePools: [{name: a}]\n"
    controller = "controller: {image: registry.example.com/dovetail:1}\n"

    addresses = {
        resource.address
        for resource in desired_state(load_config("cluster.yaml", (base + controller + access).encode()))
    }

    assert first_column("People") == set(ACCESS_POLICIES)
    assert {
        "eks-access-entry/admin-alice",
        "eks-access-entry/123456789012-role-developers",
        "eks-access-entry/123456789012-role-auditors",
    } <= addresses


def test_roles_and_their_policies_are_those_that_are_created() -> None:
    roles = {
        resource.name.removeprefix("dev-us-east-1")
        for resource in desired_state(a_cluster(name="dev"))
        if resource.kind == "iam-role"
    }

    named = {re.sub(r"`? \(or.*", "", row).removeprefix("<prefix>") for row in first_column("Roles")}
    assert named == roles
    assert all(policy in chapter("Roles") for policy in NODE_POLICIES)


def test_shared_role_of_nodes_has_no_access_entry_of_its_own() -> None:
    entries = {
        use: [
            resource.name
            for resource in desired_state(a_cluster(name="dev", iam={"nodeRole": {"use": use}}))
            if resource.kind == "eks-access-entry" and resource.name.startswith("node-")
        ]
        for use in ("own", "home")
    }

    assert entries == {"own": ["node-dev-us-east-1-node"], "home": []}


def test_tags_of_the_page_are_those_of_resources() -> None:
    resources = desired_state(an_example("existing-vpc"))
    keys = {key for resource in resources for key in resource.tags}

    named = set(re.findall(r"`((?:karpenter|dovetail)\.sh/[a-z-]+)", chapter("Tags")))
    assert named == {key for key in keys if "sh/" in key} - {"dovetail.sh/region"} | {"dovetail.sh/resource"}


def test_errors_of_the_page_are_those_of_simulate() -> None:
    lines = [line.strip() for line in chapter("Selectors of pods").splitlines() if line.startswith("    ")]
    head = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"
    container = "  containers:\n  - name: a\n    image: nginx\n"
    selector = "nodeSelector:\nINDENT  karpenter.sh/capacity-type: "
    reported = []
    for value in ("ON_DEMAND", "GRAVITON"):
        text = f"{head}  {selector}{value}\n".replace("INDENT", "  ") + container
        reported += _errors(text)
    reported += _errors(f"{head}{container}    {selector}ON_DEMAND\n".replace("INDENT", "    "))

    messages = [line.split(" ", 2)[2] for line in lines]
    assert sorted(messages) == sorted(error.partition(" ")[2] for error in reported)


def _errors(text: str) -> list[str]:
    try:
        inputs = read_inputs([("pod.yaml", text.encode())])
    except InvalidInputError as error:
        return [str(problem) for problem in error.errors]
    return [note for note in inputs.notes if note.startswith("pod.yaml")]
