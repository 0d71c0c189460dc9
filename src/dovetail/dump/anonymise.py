"""Anonymise dumps: other names and label values, and the same relations.

Names are replaced word by word: ``data-checkout-0`` becomes ``w1-w2-0`` wherever ``data`` and
``checkout`` occur. So names that are composed of others still are, selectors still match, and
owners, claims and budgets are still found. Names of nodes are replaced as a whole: they have
addresses.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dovetail.core.cost.images import is_known_multi_arch
from dovetail.core.cost.node_prices import CAPACITY_PROVISIONED
from dovetail.dump.strip import rewrite_hashes
from dovetail.model import labels as label_keys

_KEPT_NAMES: Final = frozenset(
    {"default", "kube-system", "kube-public", "kube-node-lease", "karpenter", "dovetail", "coredns"}
    | {"kube-proxy", "aws-node", "ebs-csi-controller", "ebs-csi-node", "gp2", "gp3", "efs-sc"}
    | {"system-cluster-critical", "system-node-critical", "metrics-server"}
    | {"self", "amazon", "aws-marketplace"}
)
_KEPT_VALUES: Final = frozenset(
    {*label_keys.WELL_KNOWN, *label_keys.NORMALIZED_LABELS, label_keys.REGISTERED, label_keys.INITIALIZED}
    | {"eks.amazonaws.com/capacityType", "eks.amazonaws.com/compute-type", "node.kubernetes.io/lifecycle"}
    | {
        "lifecycle",
        "kops.k8s.io/lifecycle",
        "topology.ebs.csi.aws.com/zone",
        "eks.amazonaws.com/nodegroup-image",
    }
) - {label_keys.NODEPOOL, label_keys.EC2_NODE_CLASS}
"""Labels whose values are facts of AWS and Kubernetes, not of the user."""
_LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector", "tags"})
_NAME_FIELDS: Final = frozenset(
    {"name", "namespace", "generateName", "nodeName", "claimName", "volumeName", "storageClassName"}
    | {"priorityClassName", "runtimeClassName", "serviceName", "nominatedNodeName", "role", "instanceProfile"}
    | {"persistentVolumeName", "cluster", "handler", "volumeHandle", "topologyKeyName"}
    | {"owner", "ownerID", "kmsKeyID", "ssmParameter"}
)
_KEPT_BELOW: Final = frozenset(
    {"drivers", "conditions", "ports", "nodeInfo", "allocatable", "capacity", "resources"}
)
_KEPT_ANNOTATIONS: Final = frozenset(
    {label_keys.LAUNCH_REQUEST_ANNOTATION, CAPACITY_PROVISIONED}
    | {"pv.kubernetes.io/provisioned-by", "pv.kubernetes.io/migrated-to"}
    | {"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"}
)
"""Annotations whose values are facts of AWS and Kubernetes; so are those of older versions of the API."""
_COMPATIBILITY: Final = "compatibility.karpenter.sh/"
_FACT: Final = re.compile(
    r"true|false|yes|no|(dovetail-)?v[0-9]+|[0-9]{1,11}(\.[0-9]+)?%?|([0-9.]+(ms|s|m|h|d))+|Never"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)"
)
"""Value of an annotation that names nothing: a number, a duration, a time, a version."""
_EXPRESSION: Final = frozenset({"operator", "effect", "value", "values"})
"""Fields beside ``key`` in requirements, tolerations and taints."""
_NAME_LISTS: Final = frozenset({"namespaces", "volumesInUse"})
_KEY_LISTS: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys"})
_DROPPED: Final = frozenset({"message", "resourceVersion", "systemUUID", "machineID", "bootID"})
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_PROVIDER_ID: Final = re.compile(r"(aws:///[a-z0-9-]+/)(i-[0-9a-f]+|[^/]+)$")
_CLOUD_ID: Final = re.compile(r"\b(subnet|sg|ami|vol|snap|vpc|lt|pl|cr)-[0-9a-f]{8,17}\b")
_ACCOUNT_LENGTH: Final = 12
"""Digits of the number of an AWS account."""

Object = dict[str, Any]


def anonymise(objects: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return objects under other names; equal input gives equal output."""
    originals = list(objects)
    names = Names()
    for obj in originals:
        names.add_node(obj)
    changed = [names.change(obj) for obj in originals]
    rewrite_hashes(originals, changed)
    return changed


class Names:
    """New names by first use."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._images: dict[str, str] = {}
        self._whole: dict[str, str] = {}
        """Names of nodes and IDs of instances, which are replaced as a whole."""

    def add_node(self, obj: Mapping[str, Any]) -> None:
        """Replace the name of a Node, and its host name, as a whole; other kinds are ignored."""
        meta = obj.get("metadata") or {}
        if obj.get("kind") == "Node" and meta.get("name"):
            replacement = self.node_name(str(meta["name"]))
            for name in (meta["name"], (meta.get("labels") or {}).get(label_keys.HOSTNAME)):
                if name:
                    self._whole.setdefault(str(name), replacement)

    def node_name(self, _: str) -> str:
        """Return the new name of a node."""
        return f"node-{len(self._whole) + 1}"

    def change(self, obj: Mapping[str, Any]) -> Object:
        result: Object = self._change(obj)
        return {**result, "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}

    def _change(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return self._change_mapping(value, key)
        if isinstance(value, list):
            if key in _NAME_LISTS:
                return [self.name(str(entry)) for entry in value]
            if key in _KEY_LISTS:
                return [self.label_key(str(entry)) for entry in value]
            return [self._change(entry, key) for entry in value]
        if not isinstance(value, str):
            return value
        if key in _NAME_FIELDS:
            return self.name(value)
        if key == "topologyKey":
            return self.label_key(value)
        if key == "image":
            return self._image(value)
        if key == "providerID":
            return _PROVIDER_ID.sub(lambda match: match[1] + self._instance(match[2]), value)
        return _CLOUD_ID.sub(lambda match: f"{match[1]}-{self._word(match[0])}", value)

    def _change_mapping(self, value: Mapping[str, Any], key: str) -> Object:
        if key in _LABEL_MAPS and all(isinstance(entry, str) for entry in value.values()):
            return {self.label_key(label): self.label_value(label, entry) for label, entry in value.items()}
        if key in _KEPT_BELOW:
            return {name: entry for name, entry in value.items() if name not in _DROPPED}
        # A toleration needs neither an operator nor an effect.
        if isinstance(value.get("key"), str) and not value.keys().isdisjoint(_EXPRESSION):
            return self._change_expression(value)
        result: Object = {}
        for name, entry in value.items():
            if name in _DROPPED:
                continue
            if name == "annotations" and isinstance(entry, Mapping):
                result[name] = {label: self._annotation(label, str(text)) for label, text in entry.items()}
            elif name in _KEPT_BELOW and isinstance(entry, list):
                result[name] = [
                    {inner: each for inner, each in item.items() if inner not in _DROPPED}
                    if isinstance(item, Mapping)
                    else item
                    for item in entry
                ]
            else:
                result[name] = self._change(entry, name)
        return result

    def _change_expression(self, value: Mapping[str, Any]) -> Object:
        """Change a requirement, a toleration or a taint."""
        label = str(value["key"])
        result = {**value, "key": self.label_key(label)}
        if isinstance(value.get("values"), list):
            result["values"] = [self.label_value(label, str(entry)) for entry in value["values"]]
        if isinstance(value.get("value"), str):
            result["value"] = self.label_value(label, value["value"])
        return result

    def label_key(self, key: str) -> str:
        """Return the new key of a label or taint: here the same one."""
        return key

    def label_value(self, key: str, value: str) -> str:
        """Return the new value of a label; facts of AWS and Kubernetes stay."""
        return (
            value
            if label_keys.normalize_key(key) in _KEPT_VALUES or key in _KEPT_VALUES
            else self.name(value)
        )

    def name(self, name: str) -> str:
        """Return a name with all words replaced; numbers stay, so that ordinals do."""
        if name in _KEPT_NAMES or not name:
            return name
        whole = self._whole.get(name)
        return whole if whole is not None else _WORD.sub(lambda match: self._word(match[0]), name)

    def _annotation(self, key: str, value: str) -> str:
        if key == label_keys.ASSIGNED_PODS_ANNOTATION:
            return ",".join(map(self._assigned_pod, value.split(",")))
        if key in _KEPT_ANNOTATIONS or key.startswith(_COMPATIBILITY) or _FACT.fullmatch(value):
            return value
        return self.name(value)

    def _assigned_pod(self, entry: str) -> str:
        """Change ``namespace/name/uid``; UIDs stay, as in the metadata of pods."""
        *names, uid = entry.split("/")
        return "/".join([*map(self.name, names), uid])

    def _word(self, word: str) -> str:
        if word.isdecimal():
            return "0" * _ACCOUNT_LENGTH if len(word) == _ACCOUNT_LENGTH else word
        return word if word in ("true", "false") else self._new_word(word.lower())

    def _new_word(self, word: str) -> str:
        return self._words.setdefault(word, f"w{len(self._words) + 1}")

    def _instance(self, instance: str) -> str:
        return self._whole.setdefault(instance, f"i-{len(self._whole) + 1:017x}")

    def _image(self, image: str) -> str:
        if is_known_multi_arch(image):
            return image
        return self._images.setdefault(image, f"image-{len(self._images) + 1}")
