"""Objects and changes that the API server rejects."""

from typing import NamedTuple

from tests.codec.crds import rejected_nodeclasses, rejected_nodepools
from tests.codec.crds.objects import (
    CLASS_REF,
    Object,
    Rejected,
    a_buffer,
    a_claim,
    a_pool,
    an_overlay,
    requirement,
    with_template,
)

OVERLAYS = [
    Rejected("no requirements of an overlay", an_overlay(requirements=None), "requirements"),
    Rejected("two prices", an_overlay(price="1", priceAdjustment="+1"), "exclude each other"),
    *(
        Rejected(f"the price {price}", an_overlay(price=price), "must be a number such as")
        for price in ("-1", "1,5", "free", "1.")
    ),
    *(
        Rejected(f"the adjustment {by}", an_overlay(priceAdjustment=by), "must be a signed amount")
        for by in ("10%", "1.5", "-101%", "-200%", "+a", "+1.%")
    ),
    *(
        Rejected(f"an overlay on {name}", an_overlay(capacity={name: "1"}), "extended resources only")
        for name in ("cpu", "memory", "ephemeral-storage", "pods")
    ),
    Rejected(
        "an overlay of 101 resources",
        an_overlay(capacity={f"example.com/r{number}": "1" for number in range(101)}),
        "at most 100 items",
    ),
    Rejected("a fraction as a number", an_overlay(capacity={"example.com/r": 1.5}), "integer,string"),
    Rejected("an overlay of weight 0", an_overlay(weight=0), "greater than or equal to 1"),
    Rejected("an overlay of weight 10001", an_overlay(weight=10_001), "less than or equal to 10000"),
    Rejected(
        "an overlay without values",
        an_overlay(requirements=[requirement("team", "NotIn")]),
        "need at least one value",
    ),
    *(
        Rejected(
            f"an overlay by {name}",
            an_overlay(requirements=[requirement(f"karpenter.k8s.aws/{name}", "Exists")]),
            "is not a label of karpenter.k8s.aws that can be used",
        )
        for name in ("instance-tenancy", "capacity-reservation-id", "placement-group-id")
    ),
]
_WORKLOAD = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
BUFFERS = [
    Rejected("a buffer beyond int32", a_buffer(scalableRef=_WORKLOAD, replicas=2**31), "int32"),
    Rejected("a percentage beyond int32", a_buffer(scalableRef=_WORKLOAD, percentage=2**31), "int32"),
    Rejected("a buffer of nothing", a_buffer(replicas=1), "exactly one"),
    Rejected(
        "a buffer of two things",
        a_buffer(replicas=1, scalableRef=_WORKLOAD, podTemplateRef={"name": "a"}),
        "needs podTemplateRef or scalableRef",
    ),
    Rejected(
        "a buffer of no size",
        a_buffer(podTemplateRef={"name": "a"}),
        "podTemplateRef needs replicas or limits",
    ),
    Rejected(
        "a buffer of negative size",
        a_buffer(podTemplateRef={"name": "a"}, replicas=-1),
        "greater than or equal to 0",
    ),
    Rejected("a buffer without a name", a_buffer(scalableRef={**_WORKLOAD, "name": ""}), "at least 1"),
]

REJECTED = [*rejected_nodepools.REJECTED, *rejected_nodeclasses.REJECTED, *OVERLAYS, *BUFFERS]


class RejectedChange(NamedTuple):
    """A change of an object that the API server must reject."""

    description: str
    before: Object
    after: Object
    message: str


REJECTED_CHANGES = [
    RejectedChange("a pool becomes static", a_pool(), a_pool(replicas=1), "replicas cannot be added"),
    RejectedChange("a pool becomes dynamic", a_pool(replicas=1), a_pool(), "removed from a NodePool"),
    RejectedChange(
        "a pool changes the group of its class",
        a_pool(),
        with_template(nodeClassRef={**CLASS_REF, "group": "example.com"}),
        "group cannot be changed",
    ),
    RejectedChange(
        "a pool changes the kind of its class",
        a_pool(),
        with_template(nodeClassRef={**CLASS_REF, "kind": "Other"}),
        "kind cannot be changed",
    ),
    RejectedChange(
        "a claim changes", a_claim(), a_claim(expireAfter="1h"), "spec of a NodeClaim cannot be changed"
    ),
]
