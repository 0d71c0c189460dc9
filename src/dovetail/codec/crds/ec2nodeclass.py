"""CustomResourceDefinition of EC2NodeClasses."""

from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.definition import AGE, READY, Column, Definition
from dovetail.codec.crds.kubelet import kubelet_schema
from dovetail.codec.crds.launch import (
    block_devices_schema,
    connection_tracking_schema,
    cpu_options_schema,
    metadata_options_schema,
    network_interfaces_schema,
)
from dovetail.codec.crds.schema import Rule, Schema
from dovetail.codec.crds.selectors import (
    ami_family_rules,
    ami_family_schema,
    placement_group_schema,
    selector_term_schemas,
)
from dovetail.codec.crds.shared import status_schema
from dovetail.codec.karpenter.nodeclass_validation import RESTRICTED_TAG_PREFIX, RESTRICTED_TAGS
from dovetail.codec.karpenter.nodeclasses import INSTANCE_STORE_POLICIES


def _spec() -> Schema:
    terms = selector_term_schemas()
    fields = {
        **terms,
        "amiFamily": ami_family_schema(),
        "role": schema.string(
            "IAM role of the nodes; the controller creates an instance profile for it.", shortest=1
        ),
        "instanceProfile": schema.string("Instance profile of the nodes.", shortest=1),
        "userData": schema.string("User data of the instances, in the format of the AMI family."),
        "tags": schema.mapping(
            "Tags of instances, volumes and launch templates.", {"type": "string"}, *_tag_rules()
        ),
        "kubelet": kubelet_schema(),
        "blockDeviceMappings": block_devices_schema(),
        "instanceStorePolicy": schema.enum(
            "Use of local disks: RAID0 uses them for ephemeral storage of pods.", INSTANCE_STORE_POLICIES
        ),
        "networkInterfaces": network_interfaces_schema(),
        "associatePublicIPAddress": schema.boolean(
            "Assign a public IP address to instances; if unset, the subnet decides."
        ),
        "ipPrefixCount": schema.integer("Number of address prefixes of a network interface.", low=0),
        "detailedMonitoring": schema.boolean("Enable detailed monitoring: CloudWatch metrics every minute."),
        "metadataOptions": metadata_options_schema(),
        "connectionTracking": connection_tracking_schema(),
        "cpuOptions": cpu_options_schema(),
        "placementGroupSelector": placement_group_schema(),
        "context": schema.string("Context of CreateFleet requests; rarely needed."),
    }
    return schema.struct(
        "Launch settings of instances.",
        fields,
        schema.rule(
            "has(self.role) != has(self.instanceProfile)", "needs role or instanceProfile, exactly one"
        ),
        *ami_family_rules(),
        required=("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"),
    )


def _tag_rules() -> list[Rule]:
    return [
        schema.rule("self.all(key, key != '')", "a tag needs a key"),
        schema.rule(
            f"self.all(key, !(key in {schema.cel_list(RESTRICTED_TAGS)}))",
            f"these tags are set for you; leave them out: {', '.join(RESTRICTED_TAGS)}",
        ),
        schema.rule(
            f"self.all(key, !key.startsWith('{RESTRICTED_TAG_PREFIX}'))",
            f"tags that start with {RESTRICTED_TAG_PREFIX} are set for you; leave them out",
        ),
    ]


def _status() -> Schema:
    """Return the status schema; values that EC2 defines are not restricted to an enum."""
    return status_schema(
        "Resources that the selectors match.",
        {
            "subnets": schema.array("Subnets, sorted by free addresses, descending.", _subnet()),
            "securityGroups": schema.array("Security groups.", _group()),
            "amis": schema.array("AMIs, newest first.", _image()),
            "capacityReservations": schema.array("Capacity reservations.", _reservation()),
            "instanceProfile": schema.string("Instance profile of the nodes."),
        },
    )


def _subnet() -> Schema:
    fields = {
        "id": schema.string("Its id."),
        "zone": schema.string("Name of its zone, which differs between accounts."),
        "zoneID": schema.string("ID of its zone, which is the same in all accounts."),
    }
    return schema.struct("A subnet.", fields, required=("id", "zone"))


def _group() -> Schema:
    fields = {"id": schema.string("Its id."), "name": schema.string("Its name.")}
    return schema.struct("A security group.", fields, required=("id",))


def _image() -> Schema:
    demand = schema.struct(
        "A requirement on a label of the instance type.",
        {
            "key": schema.string("Key of the label."),
            "operator": schema.string("Relation between the label and the values."),
            "values": schema.array("Values of the requirement.", {"type": "string"}),
        },
        required=("key", "operator"),
    )
    fields = {
        "id": schema.string("Its id."),
        "name": schema.string("Its name."),
        "deprecated": schema.boolean("True if its owner has deprecated it."),
        "requirements": schema.array("Requirements of the instance types that it supports.", demand),
    }
    return schema.struct("An AMI.", fields, required=("id",))


def _reservation() -> Schema:
    fields = {
        "id": schema.string("Its id."),
        "ownerID": schema.string("Account that owns it."),
        "instanceType": schema.string("Its instance type."),
        "availabilityZone": schema.string("Its zone."),
        "instanceMatchCriteria": schema.string("Instances that use it: open or targeted."),
        "reservationType": schema.string("default or capacity-block."),
        "interruptible": schema.boolean("True if EC2 may reclaim its instances."),
        "state": schema.string("active or expiring."),
        "endTime": schema.timestamp("When it ends."),
        "availableInstanceCount": schema.integer("Number of free instances, if known.", low=0),
    }
    return schema.struct("A capacity reservation.", fields, required=("id",))


EC2_NODE_CLASS: Final = Definition(
    group="karpenter.k8s.aws",
    version="v1",
    kind="EC2NodeClass",
    plural="ec2nodeclasses",
    about="AWS settings of nodes: AMIs, subnets, security groups, role, user data, disks.",
    spec=_spec(),
    status=_status(),
    columns=(READY, AGE, Column("Role", ".spec.role", wide=True)),
    short_names=("ec2nc", "ec2ncs"),
)
