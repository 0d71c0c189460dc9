"""Schema of the kubelet settings of an EC2NodeClass."""

import re
from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.schema import Rule, Schema
from dovetail.codec.karpenter.nodeclass_kubelet import (
    AMOUNT,
    EVICTION_SIGNALS,
    GRACE_PERIOD,
    PERCENTAGE,
    RESERVABLE_RESOURCES,
)
from dovetail.model.karpenter.kubelet_expressions import MAX_LENGTH

_THRESHOLD: Final = schema.full_match(
    re.compile(f"{schema.QUANTITY_PATTERN}|{PERCENTAGE.pattern}"),
    "must be a quantity such as 100Mi or a percentage such as 5%",
)
_GRACE_PERIOD: Final = schema.full_match(GRACE_PERIOD, "must be a duration such as 30s or 1m30s")
_NOT_NEGATIVE: Final = schema.rule(
    "type(self) == int ? self >= 0 : !self.startsWith('-')", "must not be negative"
)
_QUANTITY_OR_EXPRESSION: Final = schema.rule(
    f"type(self) == int || self.matches({schema.cel_string(f'^{schema.QUANTITY_PATTERN}$')}) || "
    f"!self.matches({schema.cel_string(f'^({AMOUNT.pattern})$')})",
    "must be a quantity such as 100m or 1Gi, or an expression",
)


def kubelet_schema() -> Schema:
    """Return the schema of kubelet settings; unknown fields are preserved."""
    fields = {
        "clusterDNS": schema.array("Addresses of the cluster's DNS servers.", {"type": "string"}),
        "maxPods": schema.integer_or_string(
            "Maximum number of pods of a node: a number, or a CEL expression that is evaluated for each "
            "instance type (feature gate NodeClassCEL).",
            schema.rule("type(self) != int || self >= 0", "must be greater than or equal to 0"),
            longest=MAX_LENGTH,
        ),
        "podsPerCore": schema.integer("Maximum number of pods of a node per CPU.", low=0),
        "kubeReserved": _reserved("Resources reserved for Kubernetes components."),
        "systemReserved": _reserved("Resources reserved for the operating system."),
        "evictionHard": _signals("Thresholds below which pods are evicted at once.", _THRESHOLD),
        "evictionSoft": _signals("Thresholds below which pods are evicted after a grace period.", _THRESHOLD),
        "evictionSoftGracePeriod": _signals("Grace periods of evictionSoft.", _GRACE_PERIOD),
        "evictionMaxPodGracePeriod": schema.integer(
            "Maximum termination grace period, in seconds, of pods evicted by evictionSoft."
        ),
        "imageGCHighThresholdPercent": _percent("Disk usage in percent above which images are deleted."),
        "imageGCLowThresholdPercent": _percent("Disk usage in percent down to which images are deleted."),
        "cpuCFSQuota": schema.boolean("Enforce CPU limits of containers with CFS quotas."),
    }
    return schema.struct(
        "Settings of the kubelet, with its own field names. Other fields are passed on if the AMI "
        "family supports them.",
        fields,
        *_rules(),
        further_fields=True,
    )


def _reserved(about: str) -> Schema:
    names_rule = schema.rule(
        f"self.all(name, name in {schema.cel_list(RESERVABLE_RESOURCES)})",
        f"only {', '.join(RESERVABLE_RESOURCES)} can be reserved",
    )
    amount = schema.integer_or_string(
        "A quantity, or a CEL expression that gives millicores of cpu, MiB of memory, GiB of "
        "ephemeral-storage or a number of processes (feature gate NodeClassCEL).",
        _NOT_NEGATIVE,
        _QUANTITY_OR_EXPRESSION,
        longest=MAX_LENGTH,
    )
    return schema.mapping(about, amount, names_rule, most=len(RESERVABLE_RESOURCES))


def _signals(about: str, value: Rule) -> Schema:
    names_rule = schema.rule(
        f"self.all(name, name in {schema.cel_list(EVICTION_SIGNALS)})",
        f"eviction signals are {', '.join(EVICTION_SIGNALS)}",
    )
    return schema.mapping(
        about, schema.string("Value for this signal.", value), names_rule, most=len(EVICTION_SIGNALS)
    )


def _percent(about: str) -> Schema:
    return schema.integer(about, low=0, high=100)


def _rules() -> list[Rule]:
    high, low = "self.imageGCHighThresholdPercent", "self.imageGCLowThresholdPercent"
    soft, grace = "self.evictionSoft", "self.evictionSoftGracePeriod"
    return [
        schema.rule(
            f"!has({high}) || !has({low}) || {high} > {low}",
            "imageGCHighThresholdPercent must be more than imageGCLowThresholdPercent",
        ),
        schema.rule(
            f"!has({soft}) || {soft}.all(name, has({grace}) && name in {grace})",
            "each signal in evictionSoft needs an evictionSoftGracePeriod",
        ),
        schema.rule(
            f"!has({grace}) || {grace}.all(name, has({soft}) && name in {soft})",
            "each signal in evictionSoftGracePeriod needs an evictionSoft",
        ),
    ]
