"""The kubelet settings that an EC2NodeClass can make."""

import re
from typing import Final

from dovetail.codec.crds.schema import (
    AMOUNT,
    Rule,
    Schema,
    amounts,
    listed,
    listing,
    mapping,
    matching,
    record,
    rule,
    switch,
    text,
    whole,
)
from dovetail.codec.karpenter.nodeclasses import GO_DURATION, RESERVABLE, SHARE, SIGNALS

_THRESHOLD: Final = matching(
    re.compile(f"{AMOUNT}|{SHARE.pattern}"),
    "must be an amount such as 100Mi or a share such as 5%",
)
_PATIENCE: Final = matching(GO_DURATION, "must be a duration such as 30s or 1m30s")


def kubelet() -> Schema:
    """Return the schema of kubelet settings; those that it does not name pass through."""
    fields = {
        "clusterDNS": listing("Addresses of the cluster's DNS servers.", {"type": "string"}),
        "maxPods": whole("How many pods a node takes at most.", low=0),
        "podsPerCore": whole("How many pods a node takes at most for each CPU.", low=0),
        "kubeReserved": _reserved("What Kubernetes' own processes keep for themselves."),
        "systemReserved": _reserved("What the operating system keeps for itself."),
        "evictionHard": _signals("Below this pods are evicted at once.", _THRESHOLD),
        "evictionSoft": _signals("Below this pods are evicted after a while.", _THRESHOLD),
        "evictionSoftGracePeriod": _signals("How long that while is.", _PATIENCE),
        "evictionMaxPodGracePeriod": whole(
            "How many seconds pods get at most that are evicted after a while."
        ),
        "imageGCHighThresholdPercent": _percent("Above this images are cleared away."),
        "imageGCLowThresholdPercent": _percent("Down to this images are cleared away."),
        "cpuCFSQuota": switch("Whether containers are held to their CPU limits."),
    }
    return record(
        "Settings of the kubelet, by its own names for them. Further ones pass through where the "
        "image family can take them.",
        fields,
        *_rules(),
        further_fields=True,
    )


def _reserved(about: str) -> Schema:
    known = rule(
        f"self.all(name, name in {listed(RESERVABLE)})",
        f"only {', '.join(RESERVABLE)} can be reserved",
    )
    return amounts(about, known, most=len(RESERVABLE))


def _signals(about: str, value: Rule) -> Schema:
    known = rule(
        f"self.all(name, name in {listed(SIGNALS)})", f"eviction signals are {', '.join(SIGNALS)}"
    )
    return mapping(about, text("For this signal.", value), known, most=len(SIGNALS))


def _percent(about: str) -> Schema:
    return whole(about, low=0, high=100)


def _rules() -> list[Rule]:
    high, low = "self.imageGCHighThresholdPercent", "self.imageGCLowThresholdPercent"
    soft, grace = "self.evictionSoft", "self.evictionSoftGracePeriod"
    return [
        rule(
            f"!has({high}) || !has({low}) || {high} > {low}",
            "imageGCHighThresholdPercent must be more than imageGCLowThresholdPercent",
        ),
        rule(
            f"!has({soft}) || {soft}.all(name, has({grace}) && name in {grace})",
            "what is in evictionSoft needs an evictionSoftGracePeriod",
        ),
        rule(
            f"!has({grace}) || {grace}.all(name, has({soft}) && name in {soft})",
            "what is in evictionSoftGracePeriod needs an evictionSoft",
        ),
    ]
