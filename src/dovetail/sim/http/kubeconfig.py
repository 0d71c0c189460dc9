"""The file that tells kubectl where the sandbox is and how to get in."""

from typing import Any, Final

from dovetail.sim.http.reviews import USER

CONTEXT: Final = "dovetail-sandbox"


def kubeconfig(url: str, token: str) -> dict[str, Any]:
    """Return a kubeconfig with one context, which is the current one.

    kubectl keeps a user's token to itself where there is no TLS, so for it the
    token is part of the URL; client libraries send the user's.
    """
    scheme, _, address = url.partition("://")
    server = f"{scheme}://{USER}:{token}@{address}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": server}}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {
                "name": CONTEXT,
                "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"},
            }
        ],
        "current-context": CONTEXT,
    }
