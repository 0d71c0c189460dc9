"""Other names in a trace, the same in every file and after every restart.

A keyed hash replaces each word, so that no table of names grows with the pods of a day. The
key is in a file beside the trace, readable by its owner only. Without it, names cannot be
guessed by trial; with it they can: it is not to be shared.
"""

import hashlib
import hmac
from base64 import b32encode
from pathlib import Path
from typing import Any, Final

from dovetail.dump.anonymise import Names
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.ports.randomness import RandomSource
from dovetail.record.fields import Object

_KEY_LENGTH: Final = 40
"""Characters out of 27: 190 bits."""
_WORD_LENGTH: Final = 7
"""35 bits: two of 20,000 words meet with a probability below 1 %."""


_NODE_KEYS: Final = (label_keys.HOSTNAME, "metadata.name")
"""Keys in requirements on nodes whose values are names of nodes; the second one of DaemonSets' pods."""
_PUBLIC_DOMAINS: Final = (
    *(".kubernetes.io", ".k8s.io", ".k8s.aws", ".amazonaws.com", ".csi.aws.com", ".karpenter.sh"),
    *(".dovetail.sh", ".helm.sh", ".argoproj.io", ".tekton.dev", ".knative.dev", ".kubeflow.org", ".ray.io"),
    *(".spark.apache.org", ".istio.io", ".linkerd.io", ".cilium.io", ".cert-manager.io", ".fluxcd.io"),
    *(".nvidia.com", ".amd.com"),
)
"""Domains in keys of labels and taints that are not of the user."""
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class KeyedNames(Names):
    """New names by a keyed hash."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def rename(self, obj: Object) -> Object:
        """Return a stripped object under other names."""
        self.add_node(obj)
        if obj.get("kind") == "CSINode":
            # It has the name of its node, and may be listed before it.
            name = str(obj["metadata"]["name"])
            self._whole.setdefault(name, self.node_name(name))
        return self.change(obj)

    def node_name(self, name: str) -> str:
        return f"node-{self._digest(name)}"

    def label_key(self, key: str) -> str:
        domain, slash, _ = key.rpartition("/")
        if not slash or f".{domain}".endswith(_PUBLIC_DOMAINS):
            return key
        return self.name(key)

    def label_value(self, key: str, value: str) -> str:
        return self.node_name(value) if key in _NODE_KEYS else super().label_value(key, value)

    def _annotation(self, key: str, value: str) -> str:
        return self.node_name(value) if key == _SELECTED_NODE else super()._annotation(key, value)

    def _change(self, value: Any, key: str = "") -> Any:
        # Pods are listed beside nodes: the name of a node must not depend on which came first.
        if key in ("nodeName", "nominatedNodeName") and isinstance(value, str) and value:
            return self.node_name(value)
        return super()._change(value, key)

    def _new_word(self, word: str) -> str:
        return f"w{self._digest(word)}"

    def _instance(self, instance: str) -> str:
        return f"i-{hmac.digest(self._key, instance.encode(), hashlib.sha256).hex()[:17]}"

    def _digest(self, text: str) -> str:
        digest = hmac.digest(self._key, text.encode(), hashlib.sha256)
        return b32encode(digest).decode()[:_WORD_LENGTH].lower()


def require_same_names(trace: Path, *, anonymise: bool) -> None:
    """Raise an error if a trace that exists was recorded with other names."""
    if trace.exists() and trace.stat().st_size and _get_key_path(trace).exists() != anonymise:
        was = "without" if anonymise else "with"
        raise DovetailError(
            f"{trace} was recorded {was} --anonymise; name another file, or do the same again"
        )


def _get_key_path(trace: Path) -> Path:
    return trace.with_name(f"{trace.name}.key")


def load_key(trace: Path, random: RandomSource) -> bytes:
    """Return the key beside a trace; create it if it is missing."""
    path = _get_key_path(trace)
    try:
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(random.alphanumeric(_KEY_LENGTH) + "\n")
        key = path.read_text().strip()
    except OSError as error:
        raise DovetailError(f"{path} cannot be written: {error.strerror}") from error
    if len(key) < _KEY_LENGTH:
        raise DovetailError(f"{path} is not a key of --anonymise; delete it to make a new one")
    return key.encode()
