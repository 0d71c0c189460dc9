"""P2: how fast nodes go is left to defaults."""

from collections.abc import Iterator
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, is_stated, many, name_of
from dovetail.ports.api_resources import NODE_POOLS

_BUDGETS: Final = ("spec", "disruption", "budgets")
_AFTER: Final = ("spec", "disruption", "consolidateAfter")


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out pools that say nothing; the API server writes the defaults into them."""
    for one in facts.of(NODE_POOLS):
        budgets, after = many(one, *_BUDGETS), at(one, *_AFTER)
        whys = []
        if budgets in ([], [{"nodes": "10%"}]) and not is_stated(one, *_BUDGETS):
            whys.append("budgets are the default, 10% of nodes at any time")
        if after in (None, "0s") and not is_stated(one, *_AFTER):
            whys.append("consolidateAfter is the default, 0s")
        if whys:
            yield Symptom(
                about=f"NodePool/{name_of(one)}",
                seen="; ".join(whys),
                wrong="how soon and how many nodes go at once is left to the API server's defaults",
                fix=f"kubectl patch nodepool {name_of(one)} --type merge -p "
                '\'{"spec":{"disruption":{"consolidateAfter":"5m","budgets":[{"nodes":"10%",'
                '"reasons":["Underutilized","Drifted"]},{"nodes":"100%","reasons":["Empty"]}]}}}\'',
            )


CHECK = Check(
    code="P2",
    title="implicit 10% budget, consolidateAfter 0s",
    severity=Severity.ADVICE,
    how="budgets and consolidateAfter of each NodePool are absent, or defaults that nobody wrote",
    mend="state them",
    needs=(NODE_POOLS,),
    find=find,
)
