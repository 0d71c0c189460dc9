"""Pools and claims that nobody may create."""

from collections.abc import Iterator

from tests.codec.crds.objects import (
    CLASS_REF,
    Refused,
    a_claim,
    a_pool,
    budgeted,
    demand,
    labelled,
    requiring,
    templated,
)

POOLS = [
    Refused("no template", a_pool(template=None), "spec.template"),
    Refused("no spec in the template", a_pool(template={}), "spec.template.spec: Required"),
    Refused("no requirements", templated(requirements=None), "requirements: Required"),
    Refused("weight 0", a_pool(weight=0), "greater than or equal to 1"),
    Refused("weight 101", a_pool(weight=101), "less than or equal to 100"),
    Refused("a negative limit", a_pool(limits={"cpu": "-1"}), "spec.limits.cpu"),
    Refused("a limit that is no amount", a_pool(limits={"memory": "10 GB"}), "spec.limits.memory"),
]
DISRUPTION = [
    Refused("a negative consolidateAfter", a_pool(disruption={"consolidateAfter": "-1s"}), "30s"),
    Refused("days", a_pool(disruption={"consolidateAfter": "1d"}), "must be a duration such as"),
    Refused("a small never", a_pool(disruption={"consolidateAfter": "never"}), "or Never"),
    Refused(
        "a small policy",
        a_pool(disruption={"consolidationPolicy": "whenEmpty"}),
        'supported values: "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"',
    ),
    Refused("a negative budget", budgeted(nodes="-10"), "must be a number of nodes or a share"),
    Refused("a negative share", budgeted(nodes="-10%"), "must be a number of nodes or a share"),
    Refused("a share of 1000%", budgeted(nodes="1000%"), "from 0% to 100%"),
    Refused("a share of 101%", budgeted(nodes="101%"), "from 0% to 100%"),
    Refused("a budget as a number", budgeted(nodes=10), "must be of type string"),
    Refused("a schedule alone", budgeted(nodes="1", schedule="* * * * *"), "go together"),
    Refused("a duration alone", budgeted(nodes="1", duration="20m"), "go together"),
    Refused(
        "no cron schedule",
        budgeted(nodes="1", schedule="* * * *", duration="20m"),
        "must be a cron schedule of five fields",
    ),
    Refused(
        "an unknown word for a schedule",
        budgeted(nodes="1", schedule="@fortnightly", duration="20m"),
        "a word such as @daily",
    ),
    Refused(
        "seconds in a budget",
        budgeted(nodes="1", schedule="* * * * *", duration="30s"),
        "must be hours and minutes",
    ),
    Refused(
        "seconds among minutes in a budget",
        budgeted(nodes="1", schedule="* * * * *", duration="5s10m"),
        "must be hours and minutes",
    ),
    Refused(
        "a negative duration of a budget",
        budgeted(nodes="1", schedule="* * * * *", duration="-20m"),
        "must be hours and minutes",
    ),
    Refused(
        "an unknown reason",
        budgeted(nodes="1", reasons=["CloudProvider"]),
        'supported values: "Underutilized", "Empty", "Drifted"',
    ),
    Refused("a reason twice", budgeted(nodes="1", reasons=["Empty", "Empty"]), "Duplicate value"),
    Refused("a budget that is a text", a_pool(disruption={"budgets": ["1"]}), "of type object"),
    Refused("disruption that is a text", a_pool(disruption="never"), "must be of type object"),
    Refused(
        "51 budgets", a_pool(disruption={"budgets": [{"nodes": "1"}] * 51}), "at most 50 items"
    ),
]
STATIC = [
    Refused("negative replicas", a_pool(replicas=-1), "greater than or equal to 0"),
    Refused("replicas and weight", a_pool(replicas=1, weight=1), "exclude each other"),
    *(
        Refused(
            f"replicas and a limit on {name}",
            a_pool(replicas=1, limits={name: "10", "nodes": "3"}),
            "a limit on nodes only",
        )
        for name in ("cpu", "memory", "pods", "ephemeral-storage")
    ),
]
LABELS = [
    Refused("a label of karpenter.sh", labelled({"karpenter.sh/custom": "a"}), "of the labels of"),
    Refused(
        "a label of a part of karpenter.sh",
        labelled({"sub.karpenter.sh/custom": "a"}),
        "only karpenter.sh/capacity-type can be",
    ),
    Refused(
        "the label of the pool",
        labelled({"karpenter.sh/nodepool": "a"}),
        "is set by the pool itself",
    ),
    Refused(
        "the hostname as a label",
        labelled({"kubernetes.io/hostname": "a"}),
        "is not known before a node is there",
    ),
    Refused(
        "an unknown label of AWS",
        labelled({"karpenter.k8s.aws/instance-colour": "a"}),
        "defines no such label",
    ),
    Refused("a label key with a blank", labelled({"a b": "a"}), "every key must be a label key"),
    Refused("a label value with a blank", labelled({"team": "a b"}), "must be a label value"),
    Refused("a label value too long", labelled({"team": "a" * 64}), "may not be more than 63"),
    Refused(
        "101 labels",
        labelled({f"team-{number}": "a" for number in range(101)}),
        "at most 100 items",
    ),
]


def _requirements() -> Iterator[Refused]:
    """What neither pools nor claims may require."""
    wrong = [
        ("karpenter.sh/custom", demand("karpenter.sh/custom", "In", "a"), "of the labels of"),
        (
            "the hostname",
            demand("kubernetes.io/hostname", "In", "a"),
            "is not known before a node is there",
        ),
        (
            "an unknown label of AWS",
            demand("karpenter.k8s.aws/instance-colour", "In", "red"),
            "defines no such label",
        ),
        ("null as a value", {**demand("team", "In"), "values": [None]}, "of type string"),
        ("no key", {"operator": "Exists"}, "key: Required"),
        ("no operator", {"key": "team"}, "operator: Required"),
        ("an unknown operator", demand("team", "unknown", "a"), 'supported values: "In"'),
        ("In without values", demand("team", "In"), "need at least one value"),
        ("In without any values", {"key": "team", "operator": "In"}, "need at least one value"),
        ("NotIn without values", demand("team", "NotIn"), "need at least one value"),
        ("a key that is none", demand("test.com.com}/team", "Exists"), "must be a label key"),
        ("a key of two parts", demand("a/b/c", "Exists"), "must be a label key"),
        ("a name too long", demand("a" * 64, "Exists"), "must be a label key"),
        ("an empty key", demand("", "Exists"), "must be a label key"),
        ("a value that is none", demand("team", "In", "a/b"), "values[0]"),
        ("a value too long", demand("team", "In", "a" * 64), "values[0]"),
        (
            "minValues 0",
            demand("team", "In", "a", minValues=0),
            "greater than or equal to 1",
        ),
        (
            "negative minValues",
            demand("team", "In", "a", minValues=-1),
            "greater than or equal to 1",
        ),
        (
            "minValues 51",
            demand("team", "Exists", minValues=51),
            "less than or equal to 50",
        ),
        (
            "more minValues than values",
            demand("team", "In", "a", minValues=2),
            "minValues is more than there are values",
        ),
        (
            "unknown capacity types alone",
            demand("karpenter.sh/capacity-type", "In", "on_demand", "Spot"),
            "at least one value must be known: on-demand, spot, reserved",
        ),
        (
            "unknown tenancies alone",
            demand("karpenter.k8s.aws/instance-tenancy", "In", "host"),
            "at least one value must be known: default, dedicated",
        ),
    ]
    for operator in ("Gt", "Lt", "Gte", "Lte"):
        for values in ((), ("1", "2"), ("a",), ("-1",), ("1.5",)):
            name = f"{operator} {' and '.join(values) or 'nothing'}"
            wrong.append((name, demand("team", operator, *values), "exactly one whole number"))
    for what, one, told in wrong:
        yield Refused(f"a pool requires {what}", requiring(one), told)
        yield Refused(f"a claim requires {what}", a_claim(requirements=[one]), told)
    many = [demand(f"team-{number}", "Exists") for number in range(101)]
    yield Refused("101 requirements of a pool", requiring(*many), "at most 100 items")
    yield Refused("101 requirements of a claim", a_claim(requirements=many), "at most 100 items")
    yield Refused(
        "a pool requires a pool",
        requiring(demand("karpenter.sh/nodepool", "In", "a")),
        "is set by the pool itself",
    )


def _node_parts() -> Iterator[Refused]:
    """What is wrong with what pools' templates and claims have in common."""
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
        ("nodeClassRef", {**CLASS_REF, "group": "karpenter.k8s.aws/v1"}, "without its version"),
        *(
            ("nodeClassRef", {**CLASS_REF, part: ""}, "at least 1 char")
            for part in ("group", "kind", "name")
        ),
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
    for field, value, told in wrong:
        yield Refused(f"a pool with {field} {value}", templated(**{field: value}), told)
        yield Refused(f"a claim with {field} {value}", a_claim(**{field: value}), told)


REFUSED = [*POOLS, *DISRUPTION, *STATIC, *LABELS, *_requirements(), *_node_parts()]
