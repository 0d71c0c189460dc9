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
from dovetail.trace.model import Header

_KEY_LENGTH: Final = 40
"""Characters out of 27: 190 bits."""
_WORD_LENGTH: Final = 7
"""35 bits: two of 20,000 words meet with a probability below 1 %."""
_FINGERPRINT_LENGTH: Final = 16

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

    @property
    def fingerprint(self) -> str:
        """Hash of the key, from which neither the key nor a name can be found."""
        return hmac.digest(self._key, b"fingerprint", hashlib.sha256).hex()[:_FINGERPRINT_LENGTH]

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


def open_names(
    trace: Path, header: Header | None, *, anonymise: bool, random: RandomSource
) -> KeyedNames | None:
    """Return the names for a trace; None: the real ones.

    ``header`` is that of a trace to continue: names must be replaced as they were. Only a new trace
    can get a new key. Raises ``DovetailError``.
    """
    path = trace.with_name(f"{trace.name}.key")
    if header is None:
        return KeyedNames(_load_key(path, random)) if anonymise else None
    if not anonymise and header.anonymised:
        raise DovetailError(f"{trace} was recorded with --anonymise; add it, or name another file")
    if anonymise and not header.anonymised:
        raise DovetailError(f"{trace} was recorded without --anonymise; leave it out, or name another file")
    if not anonymise:
        return None
    if not path.exists():
        raise DovetailError(
            f"{trace} was recorded with --anonymise and its key, {path}, is missing; "
            "copy the key there, or name another file"
        )
    names = KeyedNames(_load_key(path, random))
    if names.fingerprint != header.anonymised:
        raise DovetailError(
            f"{path} is not the key that {trace} was recorded with; copy that key there, or name another file"
        )
    return names


def _load_key(path: Path, random: RandomSource) -> bytes:
    """Return the key in a file; create it if it is missing."""
    try:
        if not path.exists() or not path.stat().st_size:
            path.touch(mode=0o600)
            path.write_text(random.alphanumeric(_KEY_LENGTH) + "\n")
        key = path.read_bytes().strip()
    except OSError as error:
        raise DovetailError(f"{path} cannot be written: {error.strerror}") from error
    if len(key) < _KEY_LENGTH or not key.isalnum():
        raise DovetailError(f"{path} is not a key of --anonymise; delete it to make a new one")
    return key
