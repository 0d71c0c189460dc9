"""EC2NodeClasses that the API server rejects."""

from collections.abc import Iterator

from tests.codec.crds.objects import Rejected, a_class, with_amis, with_disks, with_interfaces

CLASS_IDENTITY = [
    Rejected("role and profile", a_class(instanceProfile="p"), "needs role or instanceProfile, exactly"),
    Rejected("neither role nor profile", a_class(role=None), "needs role or instanceProfile"),
    Rejected("an empty role", a_class(role=""), "at least 1 char"),
    Rejected("an empty profile", a_class(role=None, instanceProfile=""), "at least 1 char"),
    *(
        Rejected(f"the tag {key}", a_class(tags={key: "a"}), "set for you; leave")
        for key in (
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "kubernetes.io/cluster/x",
            "eks:eks-cluster-name",
            "karpenter.k8s.aws/ec2nodeclass",
        )
    ),
    Rejected("a tag without a key", a_class(tags={"": "a"}), "a tag needs a key"),
    Rejected("Ubuntu", with_amis({"id": "ami-1"}, family="Ubuntu"), 'supported values: "AL2", "AL2023"'),
    Rejected("no family", with_amis({"id": "ami-1"}, family=None), "amiFamily is required"),
]
_FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025")
FAMILIES = [
    Rejected(
        f"{family} beside an alias of {other}",
        with_amis({"alias": f"{other.lower()}@latest"}, family=family),
        f"with an alias of {other.lower()}, amiFamily must be {other} or Custom",
    )
    for family in _FAMILIES
    for other in _FAMILIES
    if family != other
]


def _terms() -> Iterator[Rejected]:
    """Yield errors in selector terms of every kind."""
    for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"):
        yield Rejected(f"no {field}", a_class(**{field: None}), f"{field}: Required")
        yield Rejected(f"empty {field}", a_class(**{field: []}), "at least 1 items")
    names = ("subnet", "securityGroup", "ami", "capacityReservation")
    for name in names:
        field = f"{name}SelectorTerms"
        good = {"tags": {"team": "a"}}
        family = {"amiFamily": "AL2023"} if name == "ami" else {}
        for what, term, message in [
            ("an empty term", {}, "needs one of"),
            ("empty tags", {"tags": {}}, "needs one of"),
            ("a tag without a key", {"tags": {"": "a"}}, "a tag needs a key"),
            ("a tag without a value", {"tags": {"team": ""}}, "at least 1 char"),
            ("21 tags", {"tags": {f"t{n}": "a" for n in range(21)}}, "at most 20 items"),
            ("an id of another kind", {"id": "i-0123"}, "is not a valid ID"),
        ]:
            yield Rejected(f"{what} in {field}", a_class(**{field: [term]}, **family), message)
            yield Rejected(
                f"{what} as the last of {field}", a_class(**{field: [good, term]}, **family), message
            )
        yield Rejected(f"31 {field}", a_class(**{field: [good] * 31}, **family), "at most 30 items")
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
    for name, term in mixed:
        yield Rejected(
            f"{' and '.join(term)} in a term of {name}SelectorTerms",
            a_class(**{f"{name}SelectorTerms": [term]}),
            "other fields of a term",
        )


RESERVATIONS = [
    Rejected(f"a reservation by {term}", a_class(capacityReservationSelectorTerms=[term]), message)
    for term, message in [
        ({"ownerID": "012345678901"}, "needs one of tags, id, instanceMatchCriteria"),
        ({"ownerID": "01234567890", "tags": {"a": "b"}}, "twelve digits"),
        ({"instanceMatchCriteria": "closed"}, 'supported values: "open", "targeted"'),
        ({"id": "xcr-1"}, "is not a valid ID"),
    ]
]
IMAGES = [
    *(
        Rejected(f"an image by {' and '.join(term)}", with_amis(term), "other fields of a term")
        for term in [
            {"alias": "al2023@latest", "id": "ami-1"},
            {"alias": "al2023@latest", "tags": {"a": "b"}},
            {"alias": "al2023@latest", "name": "a"},
            {"alias": "al2023@latest", "owner": "self"},
            {"id": "ami-1", "tags": {"a": "b"}},
            {"id": "ami-1", "name": "a"},
            {"id": "ami-1", "owner": "self"},
        ]
    ),
    Rejected("an owner alone", with_amis({"owner": "self"}), "needs one of"),
    Rejected(
        "a good image and one by id and name",
        with_amis({"id": "ami-1"}, {"id": "ami-2", "name": "a"}),
        "other fields of a term",
    ),
    Rejected(
        "an alias and an id", with_amis({"alias": "al2023@latest"}, {"id": "ami-1"}), "must be the only term"
    ),
    *(
        Rejected(f"the alias {alias}", with_amis({"alias": alias}, family=None), message)
        for alias, message in [
            ("@latest", "must be family@version"),
            ("al2023", "must be family@version"),
            ("al2023@", "must be family@version"),
            ("al2023-latest", "must be family@version"),
            ("ubuntu@latest", "families al2, al2023, bottlerocket"),
            ("AL2023@latest", "families al2, al2023, bottlerocket"),
            ("windows2022@v1.0.0", "support only the version latest"),
            ("al2023@" + "v" * 30, "more than 30"),
        ]
    ),
]
PLACEMENT = [
    Rejected("an empty placement group", a_class(placementGroupSelector={}), "exactly one"),
    Rejected(
        "a placement group by name and id",
        a_class(placementGroupSelector={"name": "a", "id": "pg-1"}),
        "needs name or id, exactly one",
    ),
    Rejected(
        "an id of no placement group",
        a_class(placementGroupSelector={"id": "group-1"}),
        "write it as pg-0a1b",
    ),
    Rejected(
        "a placement group without a name", a_class(placementGroupSelector={"name": ""}), "at least 1 char"
    ),
]
LAUNCHING = [
    Rejected(
        "two root volumes",
        a_class(
            blockDeviceMappings=[
                {"rootVolume": True, "ebs": {"volumeSize": "20Gi"}},
                {"rootVolume": True, "ebs": {"volumeSize": "20Gi"}},
            ]
        ),
        "only one block device can be the rootVolume",
    ),
    Rejected("a disk of no size", with_disks({"volumeType": "gp3"}), "volumeSize or snapshotID"),
    *(
        Rejected(f"a disk of {size}", with_disks({"volumeSize": size}), "the size of a volume")
        for size in ("0Gi", "512Mi", "64001G", "59001Gi", "65T", "59Ti", "large", "1.5Gi", "Gi")
    ),
    Rejected("a size as a number", with_disks({"volumeSize": 20}), "must be of type string"),
    Rejected(
        "an unknown kind of disk",
        with_disks({"volumeSize": "1Gi", "volumeType": "gp4"}),
        'supported values: "standard"',
    ),
    Rejected(
        "a rate without a snapshot",
        with_disks({"volumeSize": "1Gi", "volumeInitializationRate": 100}),
        "needs snapshotID",
    ),
    *(
        Rejected(
            f"a rate of {rate}",
            with_disks({"snapshotID": "snap-1", "volumeInitializationRate": rate}),
            "should be",
        )
        for rate in (99, 301)
    ),
    Rejected("51 disks", with_disks(*[{"volumeSize": "1Gi"}] * 51), "at most 50 items"),
    Rejected("another store policy", a_class(instanceStorePolicy="RAID5"), 'values: "RAID0"'),
    Rejected("negative prefixes", a_class(ipPrefixCount=-1), "greater than or equal to 0"),
    Rejected("no primary interface", with_interfaces((1, 0, "interface")), "needs the primary interface"),
    Rejected("EFA as primary", with_interfaces((0, 0, "efa-only")), "needs the primary interface"),
    Rejected(
        "an interface twice",
        with_interfaces((0, 0, "interface"), (0, 1, "interface"), (0, 1, "interface")),
        "networkCardIndex and deviceIndex must be unique",
    ),
    Rejected(
        "two EFA interfaces of a card",
        with_interfaces((0, 0, "interface"), (1, 0, "efa-only"), (1, 1, "efa-only")),
        "at most one efa-only interface",
    ),
    Rejected("a negative card", with_interfaces((0, 0, "interface"), (-1, 0, "interface")), "be gr"),
    Rejected("a negative place", with_interfaces((0, 0, "interface"), (0, -1, "interface")), "be g"),
    Rejected(
        "an unknown interface",
        with_interfaces((0, 0, "interface"), (1, 0, "efa")),
        'supported values: "interface", "efa-only"',
    ),
    Rejected(
        "an interface without a place",
        a_class(
            networkInterfaces=[
                {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
                {"networkCardIndex": 1, "interfaceType": "interface"},
            ]
        ),
        "deviceIndex: Required",
    ),
    Rejected("151 interfaces", with_interfaces(*[(0, n, "interface") for n in range(151)]), "150"),
    Rejected("no time-outs", a_class(connectionTracking={}), "needs one of tcpEstablishedTimeout"),
    *(
        Rejected(f"{name} {seconds}", a_class(connectionTracking={name: seconds}), "should be")
        for name, low, high in [
            ("tcpEstablishedTimeout", 60, 432_000),
            ("udpStreamTimeout", 60, 180),
            ("udpTimeout", 30, 60),
        ]
        for seconds in (low - 1, high + 1)
    ),
    *(
        Rejected(f"{name} {value}", a_class(metadataOptions={name: value}), message)
        for name, value, message in [
            ("httpEndpoint", "on", 'supported values: "enabled", "disabled"'),
            ("httpProtocolIPv6", "on", 'supported values: "enabled", "disabled"'),
            ("httpTokens", "never", 'supported values: "required", "optional"'),
            ("httpPutResponseHopLimit", 0, "greater than or equal to 1"),
            ("httpPutResponseHopLimit", 65, "less than or equal to 64"),
        ]
    ),
    Rejected(
        "nested virtualization, perhaps",
        a_class(cpuOptions={"nestedVirtualization": "maybe"}),
        'supported values: "enabled", "disabled"',
    ),
]
KUBELET = [
    Rejected(f"kubelet {settings}", a_class(kubelet=settings), message)
    for settings, message in [
        ({"maxPods": -1}, "greater than or equal to 0"),
        ({"podsPerCore": -1}, "greater than or equal to 0"),
        ({"maxPods": "1" + " + 1" * 600}, "2048"),
        ({"maxPods": True}, "maxPods"),
        ({"kubeReserved": {"memory": "1Gb"}}, "must be a quantity such as 100m or 1Gi, or an expression"),
        ({"kubeReserved": {"cpu": "-1 * vcpus"}}, "must not be negative"),
        ({"kubeReserved": {"gpu": "1"}}, "only cpu, memory, ephemeral-storage, pid can be"),
        ({"systemReserved": {"cpu": "-1"}}, "must not be negative"),
        ({"evictionHard": {"memory": "5%"}}, "eviction signals are memory.available"),
        ({"evictionHard": {"memory.available": "low"}}, "or a percentage such as 5%"),
        ({"evictionHard": {"memory.available": "5Mi%"}}, "or a percentage such as 5%"),
        ({"evictionHard": {"memory.available": "101%"}}, "or a percentage such as 5%"),
        ({"evictionHard": {"memory.available": "100.5%"}}, "or a percentage such as 5%"),
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

TOO_LARGE = [
    Rejected(
        "a tag of 257", a_class(subnetSelectorTerms=[{"tags": {"a": "b" * 257}}]), "more than 256 bytes"
    ),
    Rejected("an SSM parameter of 2049", with_amis({"ssmParameter": "a" * 2049}), "more than 2048 bytes"),
    Rejected("a snapshot of 257", with_disks({"snapshotID": "a" * 257}), "more than 256 bytes"),
    Rejected("IOPS beyond int64", with_disks({"volumeSize": "1Gi", "iops": 2**63}), "must be of type int64"),
    Rejected("prefixes beyond int32", a_class(ipPrefixCount=2**31), "int32"),
    Rejected("pods per core beyond int32", a_class(kubelet={"podsPerCore": 2**31}), "int32"),
    Rejected("an empty instance profile", a_class(instanceProfile=""), "at least 1 chars long"),
    Rejected(
        "an empty placement group", a_class(placementGroupSelector={"name": "", "id": "pg-1"}), "at least 1"
    ),
]

REJECTED = [*CLASS_IDENTITY, *FAMILIES, *_terms(), *RESERVATIONS, *IMAGES, *PLACEMENT, *LAUNCHING, *KUBELET]
REJECTED += TOO_LARGE
