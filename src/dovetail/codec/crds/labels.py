"""Schemas of labels, requirements and taints in NodePools and NodeClaims."""

import re
from collections.abc import Iterable
from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.schema import Rule, Schema
from dovetail.codec.karpenter.nodepools import MAX_ENTRIES
from dovetail.codec.kube.label_validation import CLOSED_LABELS, DOMAIN, NAME
from dovetail.codec.kube.requirements import MAX_MIN_VALUES, MAX_VALUES, NODEPOOL_OPERATORS, SET_OPERATORS
from dovetail.model import labels as keys
from dovetail.model.kube.requirements import NUMERIC_OPERATORS, Operator
from dovetail.model.kube.taints import TaintEffect

MAX_KEY_LENGTH: Final = 316
MAX_VALUE_LENGTH: Final = 63
_KEY: Final = re.compile(f"({DOMAIN.pattern}/)?{NAME.pattern}")
_VALUE: Final = re.compile(f"({NAME.pattern})?")
_GOOD_KEY: Final = schema.full_match(
    _KEY, "must be a label key: a name such as 'team', or a domain and a name as in 'example.com/team'"
)
_GOOD_VALUE: Final = schema.full_match(
    _VALUE,
    "must be a label value: at most 63 letters, digits, '-', '_' and '.', starting and ending with "
    "a letter or digit",
)
_CORE: Final = "karpenter.sh"


def key_rules(key: str, *, nodepool: bool, aws_but: tuple[str, ...] = ()) -> list[Rule]:
    """Return rules against restricted labels for the CEL expression ``key``.

    ``nodepool`` allows the label ``karpenter.sh/nodepool``; ``aws_but`` are labels of
    the AWS domain to restrict as well.
    """
    core_labels = [keys.CAPACITY_TYPE, keys.NODEPOOL]
    selectable = core_labels if nodepool else core_labels[:1]
    aws_labels = sorted(
        label for label in keys.WELL_KNOWN if label.startswith(f"{keys.AWS_DOMAIN}/") and label not in aws_but
    )
    rules = [
        schema.rule(
            f"{key} in {schema.cel_list(core_labels)} || "
            f"!({key}.startsWith('{_CORE}/') || {key}.contains('.{_CORE}/'))",
            f"of the labels of {_CORE} only {' and '.join(selectable)} can be used",
        ),
        schema.rule(
            f"{key} in {schema.cel_list(aws_labels)} || !{key}.startsWith('{keys.AWS_DOMAIN}/')",
            f"is not a label of {keys.AWS_DOMAIN} that can be used",
        ),
        schema.rule(
            f"{key} != {schema.cel_string(keys.HOSTNAME)}",
            f"{keys.HOSTNAME} is unknown before the node exists; remove it",
        ),
    ]
    if not nodepool:
        rules.append(
            schema.rule(
                f"{key} != {schema.cel_string(keys.NODEPOOL)}",
                f"{keys.NODEPOOL} is set by the NodePool itself; remove it",
            )
        )
    return rules


def _rule_on(self_rule: Rule, name: str) -> str:
    """Return the expression of a rule for another variable than ``self``."""
    return str(self_rule["rule"]).replace("self", name, 1)


def labels_schema(about: str) -> Schema:
    """Return the schema of the labels of a NodePool's nodes."""
    rules = [
        schema.rule(f"self.all(key, {key_rule['rule']})", key_rule["message"])
        for key_rule in key_rules("key", nodepool=False)
    ]
    rules.append(
        schema.rule(f"self.all(key, {_rule_on(_GOOD_KEY, 'key')})", f"every key {_GOOD_KEY['message']}")
    )
    value = schema.string("Value of the label.", _GOOD_VALUE, longest=MAX_VALUE_LENGTH)
    return schema.mapping(about, value, *rules, most=MAX_ENTRIES)


def requirements_schema(
    about: str, *, nodepool: bool, min_values: bool = True, aws_but: tuple[str, ...] = ()
) -> Schema:
    """Return the schema of a list of requirements."""
    fields: dict[str, Schema] = {
        "key": schema.string(
            "Key of the label.",
            _GOOD_KEY,
            *key_rules("self", nodepool=nodepool, aws_but=aws_but),
            longest=MAX_KEY_LENGTH,
        ),
        "operator": schema.enum(
            "Relation between the label and the values. Gt, Lt, Gte and Lte compare integers.",
            NODEPOOL_OPERATORS,
        ),
        "values": schema.array(
            "One or more values for In and NotIn, one integer for Gt, Lt, Gte and Lte, none for "
            "Exists and DoesNotExist.",
            {"type": "string", "maxLength": MAX_VALUE_LENGTH, "pattern": f"^{_VALUE.pattern}$"},
            most=MAX_VALUES,
        ),
    }
    rules = [*_value_rules(), *_known_values()]
    if min_values:
        fields["minValues"] = schema.integer(
            "Minimum number of different values that must remain available.", low=1, high=MAX_MIN_VALUES
        )
        rules.append(
            schema.rule(
                "self.operator != 'In' || !has(self.minValues) || "
                "(has(self.values) && size(self.values) >= self.minValues)",
                "minValues is more than there are values",
            )
        )
    item = schema.struct(
        "A requirement on a label of the node.", fields, *rules, required=("key", "operator")
    )
    return schema.array(about, item, most=MAX_ENTRIES)


def _value_rules() -> list[Rule]:
    valued, numeric = (
        [str(operator) for operator in SET_OPERATORS],
        sorted(str(operator) for operator in NUMERIC_OPERATORS),
    )
    return [
        schema.rule(
            f"!(self.operator in {schema.cel_list(valued)}) || (has(self.values) && size(self.values) > 0)",
            f"{' and '.join(valued)} need at least one value",
        ),
        schema.rule(
            f"!(self.operator in {schema.cel_list(numeric)}) || (has(self.values) && "
            "size(self.values) == 1 && self.values[0].matches('^[0-9]{1,18}$'))",
            f"{', '.join(numeric)} need exactly one non-negative integer",
        ),
    ]


def _known_values() -> list[Rule]:
    """Return the rules that requirements on closed labels name a valid value."""
    return [
        schema.rule(
            f"self.key != {schema.cel_string(key)} || self.operator != {schema.cel_string(Operator.IN)} || "
            f"!has(self.values) || {_any_of(values)}",
            f"at least one value of {key} must be one of {', '.join(values)}",
        )
        for key, values in CLOSED_LABELS.items()
    ]


def _any_of(known: Iterable[str]) -> str:
    """Return the expression that one of these is in the values, at the lowest CEL cost."""
    return " || ".join(f"{schema.cel_string(value)} in self.values" for value in known)


def taints_schema(about: str) -> Schema:
    """Return the schema of a list of taints."""
    fields = {
        "key": schema.string("Key of the taint.", _GOOD_KEY, longest=MAX_KEY_LENGTH, shortest=1),
        "value": schema.string("Value of the taint; may be empty.", _GOOD_VALUE, longest=MAX_VALUE_LENGTH),
        "effect": schema.enum("Effect on pods that do not tolerate it.", TaintEffect),
        "timeAdded": schema.timestamp("When it was added; ignored."),
    }
    item = schema.struct("A taint.", fields, required=("key", "effect"))
    return schema.array(about, item, most=MAX_ENTRIES)
