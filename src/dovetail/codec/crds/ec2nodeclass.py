"""The definition of EC2NodeClasses."""

from typing import Final

from dovetail.codec.crds.definition import AGE, READY, Column, Definition
from dovetail.codec.crds.kubelet import kubelet
from dovetail.codec.crds.launch import (
    block_devices,
    connection_tracking,
    cpu_options,
    interfaces,
    metadata_options,
)
from dovetail.codec.crds.schema import (
    Rule,
    Schema,
    choice,
    instant,
    listed,
    listing,
    mapping,
    record,
    rule,
    switch,
    text,
    whole,
)
from dovetail.codec.crds.selectors import family, family_rules, placement_group, selector_terms
from dovetail.codec.crds.shared import status
from dovetail.codec.karpenter.nodeclass_validation import TAKEN_PREFIX, TAKEN_TAGS
from dovetail.codec.karpenter.nodeclasses import STORE_POLICIES


def _spec() -> Schema:
    terms = selector_terms()
    fields = {
        **terms,
        "amiFamily": family(),
        "role": text("IAM role of the nodes; an instance profile is made for it.", shortest=1),
        "instanceProfile": text("Instance profile of the nodes.", shortest=1),
        "userData": text("What is run when an instance starts, in its image family's format."),
        "tags": mapping("Tags of all that is made for a node.", {"type": "string"}, *_tag_rules()),
        "kubelet": kubelet(),
        "blockDeviceMappings": block_devices(),
        "instanceStorePolicy": choice(
            "What is done with local disks: RAID0 makes pods' scratch space of them.",
            STORE_POLICIES,
        ),
        "networkInterfaces": interfaces(),
        "associatePublicIPAddress": switch(
            "Whether instances get a public address; if not said, as their subnet has it."
        ),
        "ipPrefixCount": whole("How many address prefixes an interface gets.", low=0),
        "detailedMonitoring": switch("Whether CloudWatch gets figures every minute."),
        "metadataOptions": metadata_options(),
        "connectionTracking": connection_tracking(),
        "cpuOptions": cpu_options(),
        "placementGroupSelector": placement_group(),
        "context": text("Handed to EC2 with every purchase; rarely needed."),
    }
    return record(
        "How instances are started.",
        fields,
        rule(
            "has(self.role) != has(self.instanceProfile)",
            "needs role or instanceProfile, exactly one",
        ),
        *family_rules(),
        required=("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"),
    )


def _tag_rules() -> list[Rule]:
    return [
        rule("self.all(key, key != '')", "a tag needs a key"),
        rule(
            f"self.all(key, !(key in {listed(TAKEN_TAGS)}))",
            f"these tags are set for you; leave them out: {', '.join(TAKEN_TAGS)}",
        ),
        rule(
            f"self.all(key, !key.startsWith('{TAKEN_PREFIX}'))",
            f"tags that start with {TAKEN_PREFIX} are set for you; leave them out",
        ),
    ]


def _status() -> Schema:
    """Return what is found; words of EC2's own are not held to a list, which may grow."""
    return status(
        "What the selectors find.",
        {
            "subnets": listing("Subnets, most free addresses first.", _subnet()),
            "securityGroups": listing("Security groups.", _group()),
            "amis": listing("Images, newest first.", _image()),
            "capacityReservations": listing("Capacity reservations.", _reservation()),
            "instanceProfile": text("The instance profile that nodes get."),
        },
    )


def _subnet() -> Schema:
    fields = {
        "id": text("Its id."),
        "zone": text("Its zone, as this account names it."),
        "zoneID": text("Its zone, as all accounts name it."),
    }
    return record("A subnet.", fields, required=("id", "zone"))


def _group() -> Schema:
    fields = {"id": text("Its id."), "name": text("Its name.")}
    return record("A security group.", fields, required=("id",))


def _image() -> Schema:
    demand = record(
        "A demand on a label of the instance type.",
        {
            "key": text("The label that is looked at."),
            "operator": text("How it relates to the values."),
            "values": listing("What it is compared with.", {"type": "string"}),
        },
        required=("key", "operator"),
    )
    fields = {
        "id": text("Its id."),
        "name": text("Its name."),
        "deprecated": switch("Whether its owner wants it used no more."),
        "requirements": listing("The instance types that it is for.", demand),
    }
    return record("An image.", fields, required=("id",))


def _reservation() -> Schema:
    fields = {
        "id": text("Its id."),
        "ownerID": text("The account that pays for it."),
        "instanceType": text("Its instance type."),
        "availabilityZone": text("Its zone."),
        "instanceMatchCriteria": text("Which instances it takes: open or targeted."),
        "reservationType": text("default or capacity-block."),
        "interruptible": switch("Whether EC2 may take its instances back."),
        "state": text("active, or expiring soon."),
        "endTime": instant("When it ends."),
        "availableInstanceCount": whole("How many of its instances are free, where known.", low=0),
    }
    return record("A capacity reservation.", fields, required=("id",))


EC2_NODE_CLASS: Final = Definition(
    group="karpenter.k8s.aws",
    version="v1",
    kind="EC2NodeClass",
    plural="ec2nodeclasses",
    about="How instances are started on AWS, and with what.",
    spec=_spec(),
    status=_status(),
    columns=(READY, AGE, Column("Role", ".spec.role", wide=True)),
    short_names=("ec2nc", "ec2ncs"),
)
