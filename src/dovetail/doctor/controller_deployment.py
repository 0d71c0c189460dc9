"""The deployed controller: identity, settings and pods."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.doctor.facts import Facts
from dovetail.doctor.object_fields import get_field, get_list, label, name_of, namespace_of
from dovetail.ports.api_resources import DEPLOYMENTS, PODS, SERVICE_ACCOUNTS
from dovetail.ports.kube_client import Object

NAMES: Final = ("karpenter", "dovetail")
NEWEST: Final = (99,)
"""Version of Dovetail in Karpenter's terms: it has all features of the newest."""
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
    def target(self) -> str:
        """Argument of kubectl that names it."""
        return f"deployment {self.name} -n {self.namespace}"

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod template's spec."""
        pod_spec: Mapping[str, Any] = get_field(self.deployment, "spec", "template", "spec") or {}
        return pod_spec

    @property
    def container(self) -> Mapping[str, Any]:
        containers: list[Mapping[str, Any]] = get_list(self.spec, "containers")
        named = [container for container in containers if container.get("name") == "controller"]
        return (named or containers or [{}])[0]

    @property
    def service_account(self) -> str:
        return str(self.spec.get("serviceAccountName") or "default")

    @property
    def role_arn(self) -> str:
        """Role of the ServiceAccount's annotation; empty with Pod Identity."""
        return str(get_field(self.account, "metadata", "annotations", ROLE_ARN) or "")

    @property
    def replicas(self) -> int:
        replicas = get_field(self.deployment, "spec", "replicas")
        return 1 if replicas is None else int(replicas)

    @property
    def version(self) -> tuple[int, ...]:
        """For example ``(1, 6, 2)``; empty if unknown."""
        if self.kind == "dovetail":
            return NEWEST
        image = str(self.container.get("image") or "").partition("@")[0]
        for text in (label(self.deployment, "app.kubernetes.io/version"), image.rpartition(":")[2]):
            match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
            if match:
                return tuple(int(group) for group in match.groups() if group is not None)
        return ()

    def setting(self, variable: str) -> str:
        """Return a setting from an option or an environment variable; options win."""
        option = "--" + variable.lower().replace("_", "-")
        arguments = [str(argument) for argument in get_list(self.container, "args")]
        for position, argument in enumerate(arguments):
            name, has_value, value = argument.partition("=")
            if name == option:
                return value if has_value else "".join(arguments[position + 1 : position + 2])
        return variables(self.container).get(variable, "")

    def gate(self, name: str, *, default: bool = False) -> bool:
        """Return True if a feature gate is enabled."""
        for gate in self.setting("FEATURE_GATES").split(","):
            key, _, value = gate.strip().partition("=")
            if key == name:
                return value.lower() == "true"
        return default


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Return a container's environment; ``valueFrom`` gives ``(set)``."""
    return {
        str(variable.get("name")): str(variable.get("value") or ("(set)" if "valueFrom" in variable else ""))
        for variable in get_list(container, "env")
    }


def controllers(facts: Facts) -> Iterator[Controller]:
    """Yield all controllers in the cluster."""
    for deployment in facts.of(DEPLOYMENTS):
        kind = _kind(deployment)
        if kind:
            yield Controller(
                deployment=deployment,
                kind=kind,
                pods=tuple(pods_of(facts, deployment)),
                account=_account(facts, deployment),
            )


def controller_of(facts: Facts) -> Controller | None:
    """Return the controller; of several, the first by name that is not scaled to zero."""
    candidates = sorted(controllers(facts), key=lambda item: (item.replicas == 0, item.namespace, item.name))
    return candidates[0] if candidates else None


def pods_of(facts: Facts, deployment: Object) -> Iterator[Object]:
    """Yield the pods of a Deployment that are not being deleted."""
    selector = get_field(deployment, "spec", "selector", "matchLabels") or {}
    for pod in facts.of(PODS):
        labels = get_field(pod, "metadata", "labels") or {}
        if get_field(pod, "metadata", "deletionTimestamp"):
            continue
        if namespace_of(pod) == namespace_of(deployment) and selector.items() <= labels.items():
            yield pod


def _kind(deployment: Object) -> str:
    app_name = label(deployment, "app.kubernetes.io/name")
    for kind in NAMES:
        if kind in (app_name, name_of(deployment)):
            return kind
    return ""


def _account(facts: Facts, deployment: Object) -> Object | None:
    name = get_field(deployment, "spec", "template", "spec", "serviceAccountName") or "default"
    return next(
        (
            account
            for account in facts.of(SERVICE_ACCOUNTS)
            if (namespace_of(account), name_of(account)) == (namespace_of(deployment), name)
        ),
        None,
    )
