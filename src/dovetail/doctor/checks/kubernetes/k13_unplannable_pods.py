"""K13: pods say nothing of their size; volumes that cannot be planned with."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final

from dovetail.doctor.api_resources import LIMIT_RANGES
from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of, namespace_of
from dovetail.ports.api_resources import DAEMON_SETS, NODE_POOLS, PODS, STORAGE_CLASSES
from dovetail.ports.kube_client import Object

_OWN: Final = frozenset({"kube-system", "kube-node-lease", "kube-public"})
_EBS_DRIVER: Final = "ebs-csi-node"
_EBS_TAINT: Final = "ebs.csi.aws.com/agent-not-ready"


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out namespaces with such pods, old storage classes, pools without the taint."""
    yield from _without_requests(facts)
    for one in facts.of(STORAGE_CLASSES):
        if one.get("provisioner") == "kubernetes.io/aws-ebs":
            name = name_of(one)
            yield Symptom(
                about=f"StorageClass/{name}",
                seen="provisioner is kubernetes.io/aws-ebs, which is not in Kubernetes any more",
                wrong="how many volumes a node takes is not known; too many pods land on it",
                fix="make a class with provisioner ebs.csi.aws.com and move claims of "
                f"{name} to it",
            )
    if any(name_of(one) == _EBS_DRIVER for one in facts.of(DAEMON_SETS)):
        yield from _without_taint(facts)


def _without_requests(facts: Facts) -> Iterator[Symptom]:
    limited = {namespace_of(one) for one in facts.of(LIMIT_RANGES)}
    silent: Counter[str] = Counter()
    for pod in facts.of(PODS):
        namespace = namespace_of(pod)
        if namespace not in _OWN | limited and _says_nothing(pod):
            silent[namespace] += 1
    for namespace, count in sorted(silent.items()):
        yield Symptom(
            about=f"Namespace/{namespace}",
            seen=f"{count} pods have no requests, and there is no LimitRange",
            wrong="nodes are bought as if these pods were nothing, and get full",
            fix=f"kubectl create -n {namespace} -f - <<END\napiVersion: v1\nkind: LimitRange\n"
            "metadata: {name: defaults}\nspec:\n  limits:\n"
            "  - {type: Container, defaultRequest: {cpu: 100m, memory: 128Mi}}\nEND",
        )


def _says_nothing(pod: Object) -> bool:
    if at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return False
    containers = many(pod, "spec", "containers")
    return not any(
        at(one, "resources", "requests") or at(one, "resources", "limits") for one in containers
    ) and not at(pod, "spec", "resources", "requests")


def _without_taint(facts: Facts) -> Iterator[Symptom]:
    for one in facts.of(NODE_POOLS):
        taints = many(one, "spec", "template", "spec", "startupTaints")
        if any(taint.get("key") == _EBS_TAINT for taint in taints):
            continue
        name = name_of(one)
        wanted = json.dumps([*taints, {"key": _EBS_TAINT, "effect": "NoExecute"}])
        yield Symptom(
            about=f"NodePool/{name}",
            seen=f"{_EBS_DRIVER} is there, and it has no startup taint {_EBS_TAINT}",
            wrong="pods with volumes reach a new node before its driver does",
            fix=f"kubectl patch nodepool {name} --type merge -p "
            f'\'{{"spec":{{"template":{{"spec":{{"startupTaints":{wanted}}}}}}}}}\'',
        )


CHECK = Check(
    code="K13",
    title="pods without requests; in-tree volumes; no CSI startup taint",
    severity=Severity.ADVICE,
    how="requests of pods outside kube-system, provisioners of StorageClasses, startup taints",
    mend="LimitRange, CSI driver, startup taint",
    needs=(PODS, LIMIT_RANGES, STORAGE_CLASSES, DAEMON_SETS, NODE_POOLS),
    find=find,
)
