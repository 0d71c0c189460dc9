"""Objects and changes that an API server refuses."""

from typing import NamedTuple

from tests.codec.crds import refused_classes, refused_pools
from tests.codec.crds.objects import (
    CLASS_REF,
    Object,
    Refused,
    a_buffer,
    a_claim,
    a_pool,
    an_overlay,
    demand,
    templated,
)

OVERLAYS = [
    Refused("no requirements of an overlay", an_overlay(requirements=None), "requirements"),
    Refused("two prices", an_overlay(price="1", priceAdjustment="+1"), "exclude each other"),
    *(
        Refused(f"the price {price}", an_overlay(price=price), "must be a number such as")
        for price in ("-1", "1,5", "free", "1.")
    ),
    *(
        Refused(f"the adjustment {by}", an_overlay(priceAdjustment=by), "must be a signed amount")
        for by in ("10%", "1.5", "-101%", "-200%", "+a", "+1.%")
    ),
    *(
        Refused(
            f"an overlay on {name}", an_overlay(capacity={name: "1"}), "extended resources only"
        )
        for name in ("cpu", "memory", "ephemeral-storage", "pods")
    ),
    Refused("an overlay of weight 0", an_overlay(weight=0), "greater than or equal to 1"),
    Refused("an overlay of weight 10001", an_overlay(weight=10_001), "less than or equal to 10000"),
    Refused(
        "an overlay without values",
        an_overlay(requirements=[demand("team", "NotIn")]),
        "need at least one value",
    ),
    *(
        Refused(
            f"an overlay by {name}",
            an_overlay(requirements=[demand(f"karpenter.k8s.aws/{name}", "Exists")]),
            "defines no such label",
        )
        for name in ("instance-tenancy", "capacity-reservation-id", "placement-group-id")
    ),
]
_WORKLOAD = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
BUFFERS = [
    Refused("a buffer of nothing", a_buffer(replicas=1), "exactly one"),
    Refused(
        "a buffer of two things",
        a_buffer(replicas=1, scalableRef=_WORKLOAD, podTemplateRef={"name": "a"}),
        "needs podTemplateRef or scalableRef",
    ),
    Refused(
        "a buffer of no size",
        a_buffer(podTemplateRef={"name": "a"}),
        "podTemplateRef needs replicas or limits",
    ),
    Refused(
        "a buffer of negative size",
        a_buffer(podTemplateRef={"name": "a"}, replicas=-1),
        "greater than or equal to 0",
    ),
    Refused(
        "a buffer without a name", a_buffer(scalableRef={**_WORKLOAD, "name": ""}), "at least 1"
    ),
]

REFUSED = [*refused_pools.REFUSED, *refused_classes.REFUSED, *OVERLAYS, *BUFFERS]


class Change(NamedTuple):
    """What an object may not become, once it is there."""

    what: str
    before: Object
    after: Object
    told: str


FORBIDDEN_CHANGES = [
    Change("a pool becomes static", a_pool(), a_pool(replicas=1), "replicas can be neither added"),
    Change("a pool becomes dynamic", a_pool(replicas=1), a_pool(), "nor removed from it"),
    Change(
        "a pool changes the group of its class",
        a_pool(),
        templated(nodeClassRef={**CLASS_REF, "group": "example.com"}),
        "group cannot be changed",
    ),
    Change(
        "a pool changes the kind of its class",
        a_pool(),
        templated(nodeClassRef={**CLASS_REF, "kind": "Other"}),
        "kind cannot be changed",
    ),
    Change(
        "a claim changes",
        a_claim(),
        a_claim(expireAfter="1h"),
        "the spec of a claim cannot be changed",
    ),
]
