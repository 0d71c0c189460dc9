"""NodePools and NodeClaims that the API server rejects."""

from collections.abc import Iterator

from tests.codec.crds.objects import (
    CLASS_REF,
    Rejected,
    a_claim,
    a_pool,
    requirement,
    with_budget,
    with_labels,
    with_requirements,
    with_template,
)

POOLS = [
    Rejected("no template", a_pool(template=None), "spec.template"),
    Rejected("no spec in the template", a_pool(template={}), "spec.template.spec: Required"),
    Rejected("no requirements", with_template(requirements=None), "requirements: Required"),
    Rejected("weight 0", a_pool(weight=0), "greater than or equal to 1"),
    Rejected("weight 101", a_pool(weight=101), "less than or equal to 100"),
    Rejected("a negative limit", a_pool(limits={"cpu": "-1"}), "spec.limits.cpu"),
    Rejected("a limit that is no amount", a_pool(limits={"memory": "10 GB"}), "spec.limits.memory"),
]
DISRUPTION = [
    Rejected("a negative consolidateAfter", a_pool(disruption={"consolidateAfter": "-1s"}), "30s"),
    Rejected("days", a_pool(disruption={"consolidateAfter": "1d"}), "must be a duration such as"),
    Rejected("a small never", a_pool(disruption={"consolidateAfter": "never"}), "or Never"),
    Rejected(
        "a small policy",
        a_pool(disruption={"consolidationPolicy": "whenEmpty"}),
        'supported values: "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"',
    ),
    Rejected("a negative budget", with_budget(nodes="-10"), "must be a number of nodes or a percentage"),
    Rejected("a negative share", with_budget(nodes="-10%"), "must be a number of nodes or a percentage"),
    Rejected("a share of 1000%", with_budget(nodes="1000%"), "from 0% to 100%"),
    Rejected("a share of 101%", with_budget(nodes="101%"), "from 0% to 100%"),
    Rejected("a budget as a number", with_budget(nodes=10), "must be of type string"),
    Rejected("a schedule alone", with_budget(nodes="1", schedule="* * * * *"), "must be set together"),
    Rejected("a duration alone", with_budget(nodes="1", duration="20m"), "must be set together"),
    Rejected(
        "no cron schedule",
        with_budget(nodes="1", schedule="* * * *", duration="20m"),
        "must be a cron schedule with five fields",
    ),
    Rejected(
        "an unknown word for a schedule",
        with_budget(nodes="1", schedule="@fortnightly", duration="20m"),
        "a macro such as @daily",
    ),
    Rejected(
        "seconds in a budget",
        with_budget(nodes="1", schedule="* * * * *", duration="30s"),
        "must be hours and minutes",
    ),
    Rejected(
        "seconds among minutes in a budget",
        with_budget(nodes="1", schedule="* * * * *", duration="5s10m"),
        "must be hours and minutes",
    ),
    Rejected(
        "a negative duration of a budget",
        with_budget(nodes="1", schedule="* * * * *", duration="-20m"),
        "must be hours and minutes",
    ),
    Rejected(
        "an unknown reason",
        with_budget(nodes="1", reasons=["CloudProvider"]),
        'supported values: "Underutilized", "Empty", "Drifted"',
    ),
    Rejected("a reason twice", with_budget(nodes="1", reasons=["Empty", "Empty"]), "Duplicate value"),
    Rejected("a budget that is a text", a_pool(disruption={"budgets": ["1"]}), "of type object"),
    Rejected("disruption that is a text", a_pool(disruption="never"), "must be of type object"),
    Rejected("51 budgets", a_pool(disruption={"budgets": [{"nodes": "1"}] * 51}), "at most 50 items"),
]
STATIC = [
    Rejected("negative replicas", a_pool(replicas=-1), "greater than or equal to 0"),
    Rejected("replicas and weight", a_pool(replicas=1, weight=1), "exclude each other"),
    *(
        Rejected(
            f"replicas and a limit on {name}",
            a_pool(replicas=1, limits={name: "10", "nodes": "3"}),
            "a limit on nodes only",
        )
        for name in ("cpu", "memory", "pods", "ephemeral-storage")
    ),
]
LABELS = [
    Rejected("a label of karpenter.sh", with_labels({"karpenter.sh/custom": "a"}), "of the labels of"),
    Rejected(
        "a label of a part of karpenter.sh",
        with_labels({"sub.karpenter.sh/custom": "a"}),
        "only karpenter.sh/capacity-type can be",
    ),
    Rejected(
        "the label of the pool", with_labels({"karpenter.sh/nodepool": "a"}), "set by the NodePool itself"
    ),
    Rejected(
        "the hostname as a label",
        with_labels({"kubernetes.io/hostname": "a"}),
        "unknown before the node exists",
    ),
    Rejected(
        "an unknown label of AWS",
        with_labels({"karpenter.k8s.aws/instance-colour": "a"}),
        "is not a label of karpenter.k8s.aws that can be used",
    ),
    Rejected("a label key with a blank", with_labels({"a b": "a"}), "every key must be a label key"),
    Rejected("a label value with a blank", with_labels({"team": "a b"}), "must be a label value"),
    Rejected("a label value too long", with_labels({"team": "a" * 64}), "may not be more than 63"),
    Rejected(
        "101 labels", with_labels({f"team-{number}": "a" for number in range(101)}), "at most 100 items"
    ),
]


def _requirements() -> Iterator[Rejected]:
    """Yield requirements that NodePools and NodeClaims may not have."""
    wrong = [
        ("karpenter.sh/custom", requirement("karpenter.sh/custom", "In", "a"), "of the labels of"),
        ("the hostname", requirement("kubernetes.io/hostname", "In", "a"), "unknown before the node exists"),
        (
            "an unknown label of AWS",
            requirement("karpenter.k8s.aws/instance-colour", "In", "red"),
            "is not a label of karpenter.k8s.aws that can be used",
        ),
        ("null as a value", {**requirement("team", "In"), "values": [None]}, "of type string"),
        ("no key", {"operator": "Exists"}, "key: Required"),
        ("no operator", {"key": "team"}, "operator: Required"),
        ("an unknown operator", requirement("team", "unknown", "a"), 'supported values: "In"'),
        ("In without values", requirement("team", "In"), "need at least one value"),
        ("In without any values", {"key": "team", "operator": "In"}, "need at least one value"),
        ("NotIn without values", requirement("team", "NotIn"), "need at least one value"),
        ("a key that is none", requirement("test.com.com}/team", "Exists"), "must be a label key"),
        ("a key of two parts", requirement("a/b/c", "Exists"), "must be a label key"),
        ("a name too long", requirement("a" * 64, "Exists"), "must be a label key"),
        ("an empty key", requirement("", "Exists"), "must be a label key"),
        ("a value that is none", requirement("team", "In", "a/b"), "values[0]"),
        ("a value too long", requirement("team", "In", "a" * 64), "values[0]"),
        ("minValues 0", requirement("team", "In", "a", minValues=0), "greater than or equal to 1"),
        ("negative minValues", requirement("team", "In", "a", minValues=-1), "greater than or equal to 1"),
        ("minValues 51", requirement("team", "Exists", minValues=51), "less than or equal to 50"),
        (
            "more minValues than values",
            requirement("team", "In", "a", minValues=2),
            "minValues is more than there are values",
        ),
        (
            "unknown capacity types alone",
            requirement("karpenter.sh/capacity-type", "In", "on_demand", "Spot"),
            "at least one value of karpenter.sh/capacity-type must be one of on-demand, spot, reserved",
        ),
        (
            "unknown tenancies alone",
            requirement("karpenter.k8s.aws/instance-tenancy", "In", "host"),
            "at least one value of karpenter.k8s.aws/instance-tenancy must be one of default, dedicated",
        ),
    ]
    for operator in ("Gt", "Lt", "Gte", "Lte"):
        for values in ((), ("1", "2"), ("a",), ("-1",), ("1.5",)):
            name = f"{operator} {' and '.join(values) or 'nothing'}"
            wrong.append((name, requirement("team", operator, *values), "exactly one"))
    for what, entry, message in wrong:
        yield Rejected(f"a pool requires {what}", with_requirements(entry), message)
        yield Rejected(f"a claim requires {what}", a_claim(requirements=[entry]), message)
    many = [requirement(f"team-{number}", "Exists") for number in range(101)]
    yield Rejected("101 requirements of a pool", with_requirements(*many), "at most 100 items")
    yield Rejected("101 requirements of a claim", a_claim(requirements=many), "at most 100 items")
    yield Rejected(
        "a pool requires a pool",
        with_requirements(requirement("karpenter.sh/nodepool", "In", "a")),
        "set by the NodePool itself",
    )


def _node_parts() -> Iterator[Rejected]:
    """Yield errors in fields that NodePool templates and NodeClaims share."""
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    wrong = [
        ("expireAfter", "-1s", "must be a duration such as"),
        ("expireAfter", "1d", "or Never"),
        ("expireAfter", "never", "or Never"),
        ("terminationGracePeriod", "Never", "must be a duration such as"),
        ("terminationGracePeriod", "-1s", "must be a duration such as"),
        ("terminationGracePeriod", "30", "must be a duration such as"),
        ("requirements", None, "requirements: Required"),
        ("nodeClassRef", None, "nodeClassRef: Required"),
        ("nodeClassRef", {**CLASS_REF, "group": "karpenter.k8s.aws/v1"}, "must be a group without version"),
        *(("nodeClassRef", {**CLASS_REF, part: ""}, "at least 1 char") for part in ("group", "kind", "name")),
        *(
            (
                "nodeClassRef",
                {name: value for name, value in CLASS_REF.items() if name != part},
                f"nodeClassRef.{part}: Required",
            )
            for part in ("group", "kind", "name")
        ),
    ]
    for field in ("taints", "startupTaints"):
        wrong += [
            (field, [{**taint, "key": "???"}], "must be a label key"),
            (field, [{**taint, "value": "???"}], "must be a label value"),
            (field, [{**taint, "effect": "???"}], 'supported values: "NoSchedule"'),
            (field, [{"effect": "NoSchedule"}], "key: Required"),
            (field, [{**taint, "key": ""}], "at least 1 char"),
            (field, [{"key": "team"}], "effect: Required"),
        ]
    for field, value, message in wrong:
        yield Rejected(f"a pool with {field} {value}", with_template(**{field: value}), message)
        yield Rejected(f"a claim with {field} {value}", a_claim(**{field: value}), message)


TOO_LARGE = [
    Rejected("a list of resources", a_claim(resources=[]), "must be of type object"),
    Rejected("replicas beyond int32", a_pool(replicas=2**31), "less than or equal to 2147483647"),
    Rejected("a limit as a fraction", a_pool(limits={"cpu": 1.5}), "integer,string"),
    Rejected(
        "a group of 257", with_template(nodeClassRef={**CLASS_REF, "group": "a" * 257}), "more than 256 bytes"
    ),
    Rejected(
        "a list of annotations",
        a_pool(
            template={
                "metadata": {"annotations": []},
                "spec": {"requirements": [], "nodeClassRef": CLASS_REF},
            }
        ),
        "must be of type object",
    ),
]

REJECTED = [*POOLS, *DISRUPTION, *STATIC, *LABELS, *_requirements(), *_node_parts(), *TOO_LARGE]
