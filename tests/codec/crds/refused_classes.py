"""Node classes that nobody may create."""

from collections.abc import Iterator

from tests.codec.crds.objects import (
    Refused,
    a_class,
    with_disks,
    with_images,
    with_interfaces,
)

CLASS_IDENTITY = [
    Refused(
        "role and profile", a_class(instanceProfile="p"), "needs role or instanceProfile, exactly"
    ),
    Refused("neither role nor profile", a_class(role=None), "needs role or instanceProfile"),
    Refused("an empty role", a_class(role=""), "at least 1 char"),
    Refused("an empty profile", a_class(role=None, instanceProfile=""), "at least 1 char"),
    *(
        Refused(f"the tag {key}", a_class(tags={key: "a"}), "set for you; leave")
        for key in (
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "kubernetes.io/cluster/x",
            "eks:eks-cluster-name",
            "karpenter.k8s.aws/ec2nodeclass",
        )
    ),
    Refused("a tag without a key", a_class(tags={"": "a"}), "a tag needs a key"),
    Refused(
        "Ubuntu", with_images({"id": "ami-1"}, family="Ubuntu"), 'supported values: "AL2", "AL2023"'
    ),
    Refused("no family", with_images({"id": "ami-1"}, family=None), "amiFamily is missing"),
]
_FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025")
FAMILIES = [
    Refused(
        f"{family} beside an alias of {other}",
        with_images({"alias": f"{other.lower()}@latest"}, family=family),
        f"beside an alias of {other.lower()} amiFamily can be {other} or Custom",
    )
    for family in _FAMILIES
    for other in _FAMILIES
    if family != other
]


def _terms() -> Iterator[Refused]:
    """What is wrong with terms of any kind."""
    for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"):
        yield Refused(f"no {field}", a_class(**{field: None}), f"{field}: Required")
        yield Refused(f"empty {field}", a_class(**{field: []}), "at least 1 items")
    names = ("subnet", "securityGroup", "ami", "capacityReservation")
    for name in names:
        field = f"{name}SelectorTerms"
        good = {"tags": {"team": "a"}}
        family = {"amiFamily": "AL2023"} if name == "ami" else {}
        for what, one, told in [
            ("an empty term", {}, "needs one of"),
            ("empty tags", {"tags": {}}, "needs one of"),
            ("a tag without a key", {"tags": {"": "a"}}, "a tag needs a key"),
            ("a tag without a value", {"tags": {"team": ""}}, "at least 1 char"),
            ("21 tags", {"tags": {f"t{n}": "a" for n in range(21)}}, "at most 20 items"),
            ("an id of another kind", {"id": "i-0123"}, "is no id of this kind"),
        ]:
            yield Refused(f"{what} in {field}", a_class(**{field: [one]}, **family), told)
            yield Refused(
                f"{what} as the last of {field}", a_class(**{field: [good, one]}, **family), told
            )
        yield Refused(f"31 {field}", a_class(**{field: [good] * 31}, **family), "at most 30 items")
    tags = {"team": "a"}
    mixed = [
        ("subnet", {"id": "subnet-1", "tags": tags}),
        ("securityGroup", {"id": "sg-1", "tags": tags}),
        ("securityGroup", {"id": "sg-1", "name": "a"}),
        ("securityGroup", {"name": "a", "tags": tags}),
        ("capacityReservation", {"id": "cr-1", "tags": tags}),
        ("capacityReservation", {"id": "cr-1", "ownerID": "012345678901"}),
        ("capacityReservation", {"id": "cr-1", "instanceMatchCriteria": "open"}),
    ]
    for name, one in mixed:
        yield Refused(
            f"{' and '.join(one)} in a term of {name}SelectorTerms",
            a_class(**{f"{name}SelectorTerms": [one]}),
            "stands alone in a term",
        )


RESERVATIONS = [
    Refused(f"a reservation by {one}", a_class(capacityReservationSelectorTerms=[one]), told)
    for one, told in [
        ({"ownerID": "012345678901"}, "needs one of tags, id, instanceMatchCriteria"),
        ({"ownerID": "01234567890", "tags": {"a": "b"}}, "twelve digits"),
        ({"instanceMatchCriteria": "closed"}, 'supported values: "open", "targeted"'),
        ({"id": "xcr-1"}, "is no id of this kind"),
    ]
]
IMAGES = [
    *(
        Refused(f"an image by {' and '.join(one)}", with_images(one), "stands alone in a term")
        for one in [
            {"alias": "al2023@latest", "id": "ami-1"},
            {"alias": "al2023@latest", "tags": {"a": "b"}},
            {"alias": "al2023@latest", "name": "a"},
            {"alias": "al2023@latest", "owner": "self"},
            {"id": "ami-1", "tags": {"a": "b"}},
            {"id": "ami-1", "name": "a"},
            {"id": "ami-1", "owner": "self"},
        ]
    ),
    Refused("an owner alone", with_images({"owner": "self"}), "needs one of"),
    Refused(
        "a good image and one by id and name",
        with_images({"id": "ami-1"}, {"id": "ami-2", "name": "a"}),
        "stands alone in a term",
    ),
    Refused(
        "an alias and an id",
        with_images({"alias": "al2023@latest"}, {"id": "ami-1"}),
        "must be the only term",
    ),
    *(
        Refused(f"the alias {alias}", with_images({"alias": alias}, family=None), told)
        for alias, told in [
            ("@latest", "must be family@version"),
            ("al2023", "must be family@version"),
            ("al2023@", "must be family@version"),
            ("al2023-latest", "must be family@version"),
            ("ubuntu@latest", "families al2, al2023, bottlerocket"),
            ("AL2023@latest", "families al2, al2023, bottlerocket"),
            ("windows2022@v1.0.0", "no version but latest"),
            ("al2023@" + "v" * 30, "more than 30"),
        ]
    ),
]
PLACEMENT = [
    Refused("an empty placement group", a_class(placementGroupSelector={}), "exactly one"),
    Refused(
        "a placement group by name and id",
        a_class(placementGroupSelector={"name": "a", "id": "pg-1"}),
        "needs name or id, exactly one",
    ),
    Refused(
        "an id of no placement group",
        a_class(placementGroupSelector={"id": "group-1"}),
        "write it as pg-0a1b",
    ),
    Refused(
        "a placement group without a name",
        a_class(placementGroupSelector={"name": ""}),
        "at least 1 char",
    ),
]
LAUNCHING = [
    Refused(
        "two root volumes",
        a_class(
            blockDeviceMappings=[
                {"rootVolume": True, "ebs": {"volumeSize": "20Gi"}},
                {"rootVolume": True, "ebs": {"volumeSize": "20Gi"}},
            ]
        ),
        "only one disk can be the rootVolume",
    ),
    Refused("a disk of no size", with_disks({"volumeType": "gp3"}), "volumeSize or snapshotID"),
    *(
        Refused(f"a disk of {size}", with_disks({"volumeSize": size}), "the size of a volume")
        for size in ("0Gi", "512Mi", "64001G", "59001Gi", "65T", "59Ti", "large", "1.5Gi", "Gi")
    ),
    Refused("a size as a number", with_disks({"volumeSize": 20}), "must be of type string"),
    Refused(
        "an unknown kind of disk",
        with_disks({"volumeSize": "1Gi", "volumeType": "gp4"}),
        'supported values: "standard"',
    ),
    Refused(
        "a rate without a snapshot",
        with_disks({"volumeSize": "1Gi", "volumeInitializationRate": 100}),
        "goes with snapshotID only",
    ),
    *(
        Refused(
            f"a rate of {rate}",
            with_disks({"snapshotID": "snap-1", "volumeInitializationRate": rate}),
            "should be",
        )
        for rate in (99, 301)
    ),
    Refused("51 disks", with_disks(*[{"volumeSize": "1Gi"}] * 51), "at most 50 items"),
    Refused("another store policy", a_class(instanceStorePolicy="RAID5"), 'values: "RAID0"'),
    Refused("negative prefixes", a_class(ipPrefixCount=-1), "greater than or equal to 0"),
    Refused("no primary interface", with_interfaces((1, 0, "interface")), "needs the primary one"),
    Refused("EFA as primary", with_interfaces((0, 0, "efa-only")), "needs the primary one"),
    Refused(
        "an interface twice",
        with_interfaces((0, 0, "interface"), (0, 1, "interface"), (0, 1, "interface")),
        "no two can have the same",
    ),
    Refused(
        "two EFA interfaces of a card",
        with_interfaces((0, 0, "interface"), (1, 0, "efa-only"), (1, 1, "efa-only")),
        "one efa-only interface at most",
    ),
    Refused("a negative card", with_interfaces((0, 0, "interface"), (-1, 0, "interface")), "be gr"),
    Refused("a negative place", with_interfaces((0, 0, "interface"), (0, -1, "interface")), "be g"),
    Refused(
        "an unknown interface",
        with_interfaces((0, 0, "interface"), (1, 0, "efa")),
        'supported values: "interface", "efa-only"',
    ),
    Refused(
        "an interface without a place",
        a_class(
            networkInterfaces=[
                {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
                {"networkCardIndex": 1, "interfaceType": "interface"},
            ]
        ),
        "deviceIndex: Required",
    ),
    Refused("151 interfaces", with_interfaces(*[(0, n, "interface") for n in range(151)]), "150"),
    Refused("no time-outs", a_class(connectionTracking={}), "needs one of tcpEstablishedTimeout"),
    *(
        Refused(f"{name} {seconds}", a_class(connectionTracking={name: seconds}), "should be")
        for name, low, high in [
            ("tcpEstablishedTimeout", 60, 432_000),
            ("udpStreamTimeout", 60, 180),
            ("udpTimeout", 30, 60),
        ]
        for seconds in (low - 1, high + 1)
    ),
    *(
        Refused(f"{name} {value}", a_class(metadataOptions={name: value}), told)
        for name, value, told in [
            ("httpEndpoint", "on", 'supported values: "enabled", "disabled"'),
            ("httpProtocolIPv6", "on", 'supported values: "enabled", "disabled"'),
            ("httpTokens", "never", 'supported values: "required", "optional"'),
            ("httpPutResponseHopLimit", 0, "greater than or equal to 1"),
            ("httpPutResponseHopLimit", 65, "less than or equal to 64"),
        ]
    ),
    Refused(
        "nested virtualization, perhaps",
        a_class(cpuOptions={"nestedVirtualization": "maybe"}),
        'supported values: "enabled", "disabled"',
    ),
]
KUBELET = [
    Refused(f"kubelet {settings}", a_class(kubelet=settings), told)
    for settings, told in [
        ({"maxPods": -1}, "greater than or equal to 0"),
        ({"podsPerCore": -1}, "greater than or equal to 0"),
        ({"maxPods": "many"}, "must be of type integer"),
        ({"kubeReserved": {"gpu": "1"}}, "only cpu, memory, ephemeral-storage, pid can be"),
        ({"systemReserved": {"cpu": "-1"}}, "systemReserved.cpu"),
        ({"evictionHard": {"memory": "5%"}}, "eviction signals are memory.available"),
        ({"evictionHard": {"memory.available": "low"}}, "or a share such as 5%"),
        ({"evictionHard": {"memory.available": "5Mi%"}}, "or a share such as 5%"),
        ({"evictionHard": {"memory.available": "101%"}}, "or a share such as 5%"),
        ({"evictionHard": {"memory.available": "100.5%"}}, "or a share such as 5%"),
        (
            {
                "evictionSoft": {"memory.available": "5%"},
                "evictionSoftGracePeriod": {"memory.available": "soon"},
            },
            "must be a duration such as 30s or 1m30s",
        ),
        ({"evictionSoft": {"memory.available": "5%"}}, "needs an evictionSoftGracePeriod"),
        ({"evictionSoftGracePeriod": {"memory.available": "1m"}}, "needs an evictionSoft"),
        ({"imageGCHighThresholdPercent": 101}, "less than or equal to 100"),
        ({"imageGCLowThresholdPercent": -1}, "greater than or equal to 0"),
        (
            {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50},
            "must be more than imageGCLowThresholdPercent",
        ),
    ]
]

REFUSED = [
    *CLASS_IDENTITY,
    *FAMILIES,
    *_terms(),
    *RESERVATIONS,
    *IMAGES,
    *PLACEMENT,
    *LAUNCHING,
    *KUBELET,
]
