"""The controller as it is deployed: who it is, what it was told, where its pods are."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.doctor.facts import Facts
from dovetail.doctor.object_fields import at, label, many, name_of, namespace_of
from dovetail.ports.api_resources import DEPLOYMENTS, PODS, SERVICE_ACCOUNTS
from dovetail.ports.kube_client import Object

NAMES: Final = ("karpenter", "dovetail")
NEWEST: Final = (99,)
"""The version that our own controller is taken for: it does all that Karpenter's newest does."""
ROLE_ARN: Final = "eks.amazonaws.com/role-arn"


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment of Karpenter or Dovetail."""

    deployment: Object
    kind: str
    pods: tuple[Object, ...] = ()
    account: Object | None = None
    """Its ServiceAccount."""

    @property
    def name(self) -> str:
        return name_of(self.deployment)

    @property
    def namespace(self) -> str:
        return namespace_of(self.deployment)

    @property
    def about(self) -> str:
        return f"Deployment/{self.namespace}/{self.name}"

    @property
    def spec(self) -> Mapping[str, Any]:
        """Of its pods."""
        found: Mapping[str, Any] = at(self.deployment, "spec", "template", "spec") or {}
        return found

    @property
    def container(self) -> Mapping[str, Any]:
        found: list[Mapping[str, Any]] = many(self.spec, "containers")
        named = [one for one in found if one.get("name") == "controller"]
        return (named or found or [{}])[0]

    @property
    def service_account(self) -> str:
        return str(self.spec.get("serviceAccountName") or "default")

    @property
    def role_arn(self) -> str:
        """What the ServiceAccount says; empty with Pod Identity."""
        return str(at(self.account, "metadata", "annotations", ROLE_ARN) or "")

    @property
    def replicas(self) -> int:
        told = at(self.deployment, "spec", "replicas")
        return 1 if told is None else int(told)

    @property
    def version(self) -> tuple[int, ...]:
        """``(1, 6, 2)``; empty when nothing tells."""
        if self.kind == "dovetail":
            return NEWEST
        image = str(self.container.get("image") or "").partition("@")[0]
        for text in (label(self.deployment, "app.kubernetes.io/version"), image.rpartition(":")[2]):
            found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
            if found:
                return tuple(int(one) for one in found.groups() if one is not None)
        return ()

    def setting(self, variable: str) -> str:
        """Return what it was told, by an option or a variable; options win."""
        option = "--" + variable.lower().replace("_", "-")
        arguments = [str(one) for one in many(self.container, "args")]
        for place, one in enumerate(arguments):
            name, is_given, value = one.partition("=")
            if name == option:
                return value if is_given else "".join(arguments[place + 1 : place + 2])
        return variables(self.container).get(variable, "")

    def gate(self, name: str, *, usually: bool = False) -> bool:
        """Tell whether a feature is switched on."""
        for one in self.setting("FEATURE_GATES").split(","):
            key, _, value = one.strip().partition("=")
            if key == name:
                return value.lower() == "true"
        return usually


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Return a container's environment; what comes from elsewhere has the text ``(set)``."""
    return {
        str(one.get("name")): str(one.get("value") or ("(set)" if "valueFrom" in one else ""))
        for one in many(container, "env")
    }


def controllers(facts: Facts) -> Iterator[Controller]:
    """Hand out every Deployment of a controller."""
    for one in facts.of(DEPLOYMENTS):
        kind = _kind(one)
        if kind:
            yield Controller(
                deployment=one,
                kind=kind,
                pods=tuple(pods_of(facts, one)),
                account=_account(facts, one),
            )


def controller_of(facts: Facts) -> Controller | None:
    """Return the controller; of several the first by name."""
    found = sorted(controllers(facts), key=lambda one: (one.namespace, one.name))
    return found[0] if found else None


def pods_of(facts: Facts, deployment: Object) -> Iterator[Object]:
    """Hand out the pods that a Deployment selects, those that are going left out."""
    wanted = at(deployment, "spec", "selector", "matchLabels") or {}
    for pod in facts.of(PODS):
        labels = at(pod, "metadata", "labels") or {}
        if at(pod, "metadata", "deletionTimestamp"):
            continue
        if namespace_of(pod) == namespace_of(deployment) and wanted.items() <= labels.items():
            yield pod


def _kind(deployment: Object) -> str:
    told = label(deployment, "app.kubernetes.io/name")
    for kind in NAMES:
        if kind in (told, name_of(deployment)):
            return kind
    return ""


def _account(facts: Facts, deployment: Object) -> Object | None:
    name = at(deployment, "spec", "template", "spec", "serviceAccountName") or "default"
    return next(
        (
            one
            for one in facts.of(SERVICE_ACCOUNTS)
            if (namespace_of(one), name_of(one)) == (namespace_of(deployment), name)
        ),
        None,
    )
