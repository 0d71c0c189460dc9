"""The file that tells kubectl where the sandbox is and how to get in."""

from base64 import b64encode
from typing import Any, Final

CONTEXT: Final = "dovetail-sandbox"


def kubeconfig(url: str, token: str, certificate: str) -> dict[str, Any]:
    """Return a kubeconfig with one context, which is the current one.

    ``certificate`` is the server's own, in PEM: the only one to be trusted.
    """
    trusted = b64encode(certificate.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {"server": url, "certificate-authority-data": trusted},
            }
        ],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {
                "name": CONTEXT,
                "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"},
            }
        ],
        "current-context": CONTEXT,
    }
