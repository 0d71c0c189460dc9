"""T3: providers are configured from what the same state makes."""

import re
from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.terraform_source import blocks, makes_cluster

_OF_CLUSTERS = ("kubernetes", "helm", "kubectl")


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out providers that need a cluster which is made beside them."""
    every = list(blocks(facts))
    made = [
        ("module." if one.kind == "module" else "") + ".".join(one.labels)
        for one in every
        if makes_cluster(one)
    ]
    for one in every:
        if one.kind != "provider" or one.labels[0] not in _OF_CLUSTERS:
            continue
        used = [name for name in made if re.search(rf"\b{re.escape(name)}\b", one.body)]
        if used:
            yield Symptom(
                about=f"terraform/{one.file}",
                seen=f"provider {one.labels[0]} is configured from {used[0]}, made in this state",
                wrong="the first apply needs -target; a replaced cluster breaks every plan",
                fix="dovetail cluster apply -f cluster.yaml  # waits for what must be there "
                "first; or give the cluster a state of its own",
            )


CHECK = Check(
    code="T3",
    title="state built by -target steps",
    severity=Severity.RISK,
    how="*.tf files: provider blocks that name the cluster made beside them",
    mend="split cluster and add-ons, or a tool that waits",
    needs=(Part.TERRAFORM,),
    find=find,
)
