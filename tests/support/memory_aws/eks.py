"""EKS in memory: add-ons, access entries and Pod Identity."""

import json
from typing import Any

from tests.support.memory_aws.clusters import MemoryClusters
from tests.support.memory_aws.iam import ACCOUNT
from tests.support.memory_aws.refusals import Raw, refusal


class MemoryEks(MemoryClusters):
    """All of EKS that ``dovetail cluster`` calls."""

    # Add-ons.

    def create_addon(self, *, clusterName: str, addonName: str, resolveConflicts: str, **more: Any) -> Raw:
        assert resolveConflicts in ("OVERWRITE", "NONE"), resolveConflicts
        version = self.cluster(clusterName)["version"]
        fields = {"addonName": addonName, "addonVersion": _addon_version(version), **more}
        json.loads(fields.get("configurationValues") or "{}")
        addon = self.create_member(
            "addon", clusterName, addonName, "addonArn", {**fields, "status": "CREATING"}
        )
        return {"addon": dict(addon)}

    def describe_addon_versions(self, *, addonName: str, kubernetesVersion: str) -> Raw:
        versions = [{"addonVersion": _addon_version(kubernetesVersion)}]
        return {"addons": [{"addonName": addonName, "addonVersions": versions}]}

    def list_addons(self, *, clusterName: str) -> Raw:
        return {"addons": list(self.members_of(clusterName, "addon"))}

    def describe_addon(self, *, clusterName: str, addonName: str) -> Raw:
        return {"addon": self.settle(self.member(clusterName, "addon", addonName))}

    def update_addon(self, *, clusterName: str, addonName: str, resolveConflicts: str, **more: Any) -> Raw:
        addon = self.updatable(self.member(clusterName, "addon", addonName))
        json.loads(more.get("configurationValues") or "{}")
        addon.update(more)
        addon["status"] = "UPDATING"
        return {"update": {"id": "1"}}

    def delete_addon(self, *, clusterName: str, addonName: str) -> Raw:
        self.member(clusterName, "addon", addonName)
        del self.members[clusterName]["addon"][addonName]
        return {}

    # Access entries.

    def create_access_entry(
        self, *, clusterName: str, principalArn: str, type: str, tags: Any = None, **more: Any
    ) -> Raw:
        if self.cluster(clusterName)["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
            raise refusal("InvalidRequestException", "The cluster's authentication mode must be API")
        if principalArn in self.members_of(clusterName, "entry"):
            message = "The specified access entry resource is already in use on this cluster."
            raise refusal("ResourceInUseException", message)
        self.require_active(clusterName)
        name = principalArn.rpartition("/")[2]
        if f"::{ACCOUNT}:role/" in principalArn and name not in self.account.iam.roles:
            message = "The specified principalArn is invalid: invalid principal."
            raise refusal("InvalidParameterException", message)
        self.add_entry(clusterName, principalArn, type, {})
        entry = self.member(clusterName, "entry", principalArn)
        _update_entry(entry, more)
        entry["tags"] = dict(tags or {})
        return {"accessEntry": _entry(entry)}

    def list_access_entries(self, *, clusterName: str) -> Raw:
        return {"accessEntries": list(self.members_of(clusterName, "entry"))}

    def describe_access_entry(self, *, clusterName: str, principalArn: str) -> Raw:
        return {"accessEntry": _entry(self.member(clusterName, "entry", principalArn))}

    def update_access_entry(self, *, clusterName: str, principalArn: str, **changes: Any) -> Raw:
        entry = self.member(clusterName, "entry", principalArn)
        _update_entry(entry, changes)
        return {"accessEntry": _entry(entry)}

    def delete_access_entry(self, *, clusterName: str, principalArn: str) -> Raw:
        self.member(clusterName, "entry", principalArn)
        del self.members[clusterName]["entry"][principalArn]
        return {}

    def list_associated_access_policies(self, *, clusterName: str, principalArn: str) -> Raw:
        policies = self.member(clusterName, "entry", principalArn)["policies"]
        return {
            "associatedAccessPolicies": [
                {"policyArn": arn, "accessScope": scope} for arn, scope in policies.items()
            ]
        }

    def associate_access_policy(
        self, *, clusterName: str, principalArn: str, policyArn: str, accessScope: Raw
    ) -> Raw:
        entry = self.member(clusterName, "entry", principalArn)
        if entry["type"] != "STANDARD":
            raise refusal("InvalidParameterException", f"no policies for entries of type {entry['type']}")
        entry["policies"] = {**entry["policies"], policyArn: accessScope}
        return {}

    def disassociate_access_policy(self, *, clusterName: str, principalArn: str, policyArn: str) -> Raw:
        entry = self.member(clusterName, "entry", principalArn)
        entry["policies"] = {arn: scope for arn, scope in entry["policies"].items() if arn != policyArn}
        return {}

    # Pod Identity.

    def create_pod_identity_association(
        self, *, clusterName: str, namespace: str, serviceAccount: str, roleArn: str, tags: Any = None
    ) -> Raw:
        self.check_role(roleArn, "pods.eks.amazonaws.com")
        if self.list_pod_identity_associations(
            clusterName=clusterName, namespace=namespace, serviceAccount=serviceAccount
        )["associations"]:
            raise refusal("ResourceInUseException", "Association already exists")
        key = f"a-{next(self.numbers):08x}"
        fields = {"associationId": key, "namespace": namespace, "serviceAccount": serviceAccount}
        fields |= {"roleArn": roleArn, "tags": tags}
        association = self.create_member("association", clusterName, key, "associationArn", fields)
        return {"association": dict(association)}

    def list_pod_identity_associations(
        self, *, clusterName: str, namespace: str | None = None, serviceAccount: str | None = None
    ) -> Raw:
        return {
            "associations": [
                dict(member)
                for member in self.members_of(clusterName, "association").values()
                if namespace in (None, member["namespace"])
                and serviceAccount in (None, member["serviceAccount"])
            ]
        }

    def describe_pod_identity_association(self, *, clusterName: str, associationId: str) -> Raw:
        return {"association": dict(self.member(clusterName, "association", associationId))}

    def update_pod_identity_association(self, *, clusterName: str, associationId: str, roleArn: str) -> Raw:
        self.check_role(roleArn, "pods.eks.amazonaws.com")
        association = self.member(clusterName, "association", associationId)
        association["roleArn"] = roleArn
        return {"association": dict(association)}

    def delete_pod_identity_association(self, *, clusterName: str, associationId: str) -> Raw:
        self.member(clusterName, "association", associationId)
        del self.members[clusterName]["association"][associationId]
        return {}


def _update_entry(entry: Raw, changes: Raw) -> None:
    assert set(changes) <= {"kubernetesGroups", "username"}, changes
    if entry["type"] != "STANDARD" and changes:
        raise refusal("InvalidParameterException", f"no groups for entries of type {entry['type']}")
    if any(group.startswith(("system:", "eks:", "aws:")) for group in changes.get("kubernetesGroups", ())):
        raise refusal("InvalidParameterException", "The kubernetes group name is invalid, cannot start with")
    entry.update(changes)
    if not entry["username"]:
        # EKS generates a user name if none is given: of a role, with the name of its session.
        start, is_role, name = entry["principalArn"].partition(":role/")
        session = (
            f"{start.replace(':iam:', ':sts:')}:assumed-role/{name.rpartition('/')[2]}/{{{{SessionName}}}}"
        )
        entry["username"] = session if is_role else entry["principalArn"]


def _entry(entry: Raw) -> Raw:
    return {key: value for key, value in entry.items() if key != "policies"}


def _addon_version(version: str) -> str:
    return f"v{version}.0-eksbuild.1"
