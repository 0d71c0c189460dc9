"""Where the API server serves what."""

from urllib.parse import quote

from dovetail.ports.api_resources import Resource


def path_of(
    resource: Resource, name: str = "", *, namespace: str = "", subresource: str = ""
) -> str:
    """Return the path of a kind in all namespaces or one, or of one object."""
    parts = ["apis", resource.group] if resource.group else ["api"]
    parts.append(resource.version)
    if namespace and resource.namespaced:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    parts += [one for one in (name, subresource) if one]
    return "/" + "/".join(quote(one, safe="") for one in parts)
