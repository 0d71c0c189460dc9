"""CustomResourceDefinitions of Karpenter: versions, owner, webhook and fields."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.finding import merge_patch
from dovetail.doctor.object_fields import get_field, get_list, join_names, name_of
from dovetail.migration.facts import MigrationFacts
from dovetail.migration.report import Area, Item, Level
from dovetail.ports.kube_client import Object

_REQUIRED: Final = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")
_INSTALL: Final = "dovetail crds | kubectl apply --server-side -f -"
_RELEASE, _RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"


def definitions(facts: MigrationFacts) -> Iterator[Item]:
    """Yield the state of each CustomResourceDefinition that Dovetail knows."""
    if CRDS in facts.facts.unseen:
        return
    crds = {name_of(crd): crd for crd in facts.facts.of(CRDS)}
    for definition in DEFINITIONS:
        crd = crds.get(definition.name)
        if crd is not None:
            yield from _check(definition.name, crd, definition.encode())
        elif definition.name in _REQUIRED:
            yield _item(Level.BLOCKER, definition.name, "does not exist", _INSTALL)
        else:
            yield _item(Level.OK, definition.name, "does not exist; only its feature gate needs it")


def _check(name: str, crd: Object, ours: Mapping[str, Any]) -> Iterator[Item]:
    versions = {str(version.get("name")): version for version in get_list(crd, "spec", "versions")}
    served = sorted(version for version, spec in versions.items() if spec.get("served"))
    stored = [str(version) for version in get_list(crd, "status", "storedVersions")]
    wanted = str(ours["spec"]["versions"][0]["name"])
    text = f"serves {', '.join(served)}; stores {', '.join(stored) or 'unknown'}; {_owner(crd)}"
    if wanted not in served:
        yield _item(Level.BLOCKER, name, f"{text}; Dovetail needs {wanted}: upgrade to Karpenter 1.x first")
        return
    yield _item(Level.OK, name, text)
    old = [version for version in stored if version != wanted]
    if old:
        fix = f"kubectl get {name} -o json | kubectl replace -f - && "
        fix += merge_patch(f"crd {name} --subresource status", {"status": {"storedVersions": [wanted]}})
        yield _item(Level.WARNING, name, f"objects may be stored as {', '.join(old)}; rewrite them", fix)
    if get_field(crd, "spec", "conversion", "strategy") == "Webhook":
        fix = merge_patch(f"crd {name}", {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
        text = "its conversion webhook is served by Karpenter"
        text += "; reads fail once Karpenter stops" if old else ", and not needed any more"
        yield _item(Level.BLOCKER if old else Level.WARNING, name, text, fix)
    yield from _compare_fields(name, versions[wanted], ours["spec"]["versions"][0])


def _compare_fields(name: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Item]:
    our_fields, their_fields = set(_spec_fields(ours)), set(_spec_fields(theirs))
    missing = sorted(our_fields - their_fields)
    if missing:
        text = f"has no {join_names(missing, 3)}; cannot be used until the CRDs of Dovetail are installed"
        yield _item(Level.NOTE, name, text)
    unknown = sorted(their_fields - our_fields)
    if unknown:
        yield _item(Level.NOTE, name, f"has {join_names(unknown, 3)}, which Dovetail ignores")


def _spec_fields(version: Mapping[str, Any]) -> Iterator[str]:
    spec = get_field(version, "schema", "openAPIV3Schema", "properties", "spec") or {}
    yield from _fields(spec, "spec")


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of all fields, without those of open maps."""
    items = schema.get("items")
    if isinstance(items, Mapping):
        yield from _fields(items, path)
    for field, nested in sorted((schema.get("properties") or {}).items()):
        yield f"{path}.{field}"
        yield from _fields(nested, f"{path}.{field}")


def _owner(crd: Object) -> str:
    annotations = get_field(crd, "metadata", "annotations") or {}
    release = annotations.get(_RELEASE)
    return (
        f"owned by release {annotations.get(_RELEASE_NAMESPACE, '')}/{release}"
        if release
        else "owned by no release"
    )


def _item(level: Level, name: str, text: str, fix: str = "") -> Item:
    return Item(area=Area.CRDS, level=level, about=name, text=text, fix=fix)
