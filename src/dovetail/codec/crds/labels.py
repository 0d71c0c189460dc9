"""Labels, requirements and taints: what the schemas of pools and claims have in common."""

import re
from collections.abc import Iterable
from typing import Final

from dovetail.codec.crds.schema import (
    Rule,
    Schema,
    choice,
    instant,
    listed,
    listing,
    mapping,
    matching,
    quoted,
    record,
    rule,
    text,
    whole,
)
from dovetail.codec.karpenter.nodepools import MOST_ENTRIES
from dovetail.codec.kube.label_validation import CLOSED, DOMAIN, NAME
from dovetail.codec.kube.requirements import MOST_MIN_VALUES, MOST_VALUES, POOL_OPERATORS, VALUED
from dovetail.model import labels as keys
from dovetail.model.kube.requirements import NUMERIC, Operator
from dovetail.model.kube.taints import Effect

LONGEST_KEY: Final = 316
LONGEST_VALUE: Final = 63
_KEY: Final = re.compile(f"({DOMAIN.pattern}/)?{NAME.pattern}")
_VALUE: Final = re.compile(f"({NAME.pattern})?")
_GOOD_KEY: Final = matching(
    _KEY,
    "must be a label key: a name such as 'team', or a domain and a name as in 'example.com/team'",
)
_GOOD_VALUE: Final = matching(
    _VALUE,
    "must be a label value: at most 63 letters, digits, '-', '_' and '.', starting and ending with "
    "a letter or digit",
)
_CORE: Final = "karpenter.sh"


def key_rules(key: str, *, nodepool: bool, aws_but: tuple[str, ...] = ()) -> list[Rule]:
    """Return which labels nobody may ask for, as rules on the CEL expression ``key``.

    ``nodepool`` allows the label by which nodes belong to a pool; ``aws_but``
    takes labels of AWS away from those that may be named.
    """
    ours = [keys.CAPACITY_TYPE, keys.NODEPOOL]
    told = ours if nodepool else ours[:1]
    theirs = sorted(
        one
        for one in keys.WELL_KNOWN
        if one.startswith(f"{keys.AWS_DOMAIN}/") and one not in aws_but
    )
    found = [
        rule(
            f"{key} in {listed(ours)} || !({key}.startsWith('{_CORE}/') || "
            f"{key}.contains('.{_CORE}/'))",
            f"of the labels of {_CORE} only {' and '.join(told)} can be asked for",
        ),
        rule(
            f"{key} in {listed(theirs)} || !{key}.startsWith('{keys.AWS_DOMAIN}/')",
            f"{keys.AWS_DOMAIN} defines no such label that can be asked for",
        ),
        rule(
            f"{key} != {quoted(keys.HOSTNAME)}",
            f"{keys.HOSTNAME} is not known before a node is there; leave it out",
        ),
    ]
    if not nodepool:
        found.append(
            rule(
                f"{key} != {quoted(keys.NODEPOOL)}",
                f"{keys.NODEPOOL} is set by the pool itself; leave it out",
            )
        )
    return found


def _on(one: Rule, name: str) -> str:
    """Return the expression of a rule about another variable than ``self``."""
    return str(one["rule"]).replace("self", name, 1)


def pool_labels(about: str) -> Schema:
    """Return the schema of the labels that a pool's nodes get."""
    rules = [
        rule(f"self.all(key, {one['rule']})", one["message"])
        for one in key_rules("key", nodepool=False)
    ]
    rules.append(
        rule(f"self.all(key, {_on(_GOOD_KEY, 'key')})", f"every key {_GOOD_KEY['message']}")
    )
    value = text("Value of the label.", _GOOD_VALUE, longest=LONGEST_VALUE)
    return mapping(about, value, *rules, most=MOST_ENTRIES)


def requirements(
    about: str,
    *,
    nodepool: bool,
    min_values: bool = True,
    aws_but: tuple[str, ...] = (),
) -> Schema:
    """Return the schema of a list of requirements."""
    fields: dict[str, Schema] = {
        "key": text(
            "The label that is looked at.",
            _GOOD_KEY,
            *key_rules("self", nodepool=nodepool, aws_but=aws_but),
            longest=LONGEST_KEY,
        ),
        "operator": choice(
            "How the label relates to the values. Gt, Lt, Gte and Lte compare whole numbers.",
            POOL_OPERATORS,
        ),
        "values": listing(
            "One or more for In and NotIn, one whole number for Gt, Lt, Gte and Lte, none for "
            "Exists and DoesNotExist.",
            {"type": "string", "maxLength": LONGEST_VALUE, "pattern": f"^{_VALUE.pattern}$"},
            most=MOST_VALUES,
        ),
    }
    rules = [*_value_rules(), *_known_values()]
    if min_values:
        fields["minValues"] = whole(
            "At least so many different values must be left to choose from.",
            low=1,
            high=MOST_MIN_VALUES,
        )
        rules.append(
            rule(
                "self.operator != 'In' || !has(self.minValues) || "
                "(has(self.values) && size(self.values) >= self.minValues)",
                "minValues is more than there are values",
            )
        )
    one = record("A demand on a label of the node.", fields, *rules, required=("key", "operator"))
    return listing(about, one, most=MOST_ENTRIES)


def _value_rules() -> list[Rule]:
    valued, numeric = [str(one) for one in VALUED], sorted(str(one) for one in NUMERIC)
    return [
        rule(
            f"!(self.operator in {listed(valued)}) || (has(self.values) && size(self.values) > 0)",
            f"{' and '.join(valued)} need at least one value",
        ),
        rule(
            f"!(self.operator in {listed(numeric)}) || (has(self.values) && "
            "size(self.values) == 1 && self.values[0].matches('^[0-9]{1,18}$'))",
            f"{', '.join(numeric)} need exactly one whole number that is not negative",
        ),
    ]


def _known_values() -> list[Rule]:
    """Return the rules that labels with few values are asked for one that there is."""
    return [
        rule(
            f"self.key != {quoted(key)} || self.operator != {quoted(Operator.IN)} || "
            f"!has(self.values) || {_any_of(known)}",
            f"of {key} at least one value must be known: {', '.join(known)}",
        )
        for key, known in CLOSED.items()
    ]


def _any_of(known: Iterable[str]) -> str:
    """Return that one of these is among the values, in the way that costs the least."""
    return " || ".join(f"{quoted(one)} in self.values" for one in known)


def taints(about: str) -> Schema:
    """Return the schema of a list of taints."""
    fields = {
        "key": text("Name of the taint.", _GOOD_KEY, longest=LONGEST_KEY, shortest=1),
        "value": text("Value of the taint; may be empty.", _GOOD_VALUE, longest=LONGEST_VALUE),
        "effect": choice("What it does to pods that do not tolerate it.", Effect),
        "timeAdded": instant("When it was added; of no meaning here."),
    }
    one = record("Keeps away pods that do not tolerate it.", fields, required=("key", "effect"))
    return listing(about, one, most=MOST_ENTRIES)
