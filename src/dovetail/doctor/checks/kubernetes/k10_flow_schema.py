"""K10: the API server may make the controller wait behind everybody else."""

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.doctor.api_resources import FLOW_SCHEMAS
from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import Controller, controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of

_FOR_ALL = ("catch-all", "global-default", "service-accounts")
_FIX = """kubectl apply -f - <<END
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: {account}}}
spec:
  matchingPrecedence: 1000
  priorityLevelConfiguration: {{name: workload-high}}
  rules:
  - subjects:
    - kind: ServiceAccount
      serviceAccount: {{name: {account}, namespace: {namespace}}}
    resourceRules:
    - {{apiGroups: ['*'], resources: ['*'], verbs: ['*'], namespaces: ['*'], clusterScope: true}}
END"""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out a controller outside kube-system that no FlowSchema names."""
    found = controller_of(facts)
    if found is None or found.namespace == "kube-system":
        return
    schemas = [one for one in facts.of(FLOW_SCHEMAS) if name_of(one) not in _FOR_ALL]
    subjects = [
        subject
        for one in schemas
        for rule in many(one, "spec", "rules")
        for subject in many(rule, "subjects")
    ]
    if any(_is_meant(one, found) for one in subjects):
        return
    yield Symptom(
        about=found.about,
        seen=f"it is in namespace {found.namespace}, and no FlowSchema names "
        f"ServiceAccount {found.service_account} there",
        wrong="when the API server is busy, the controller's requests wait with all others",
        fix=_FIX.format(account=found.service_account, namespace=found.namespace),
    )


def _is_meant(subject: Mapping[str, Any], found: Controller) -> bool:
    account = at(subject, "serviceAccount") or {}
    if account.get("namespace") == found.namespace:
        return account.get("name") in ("*", found.service_account)
    user = at(subject, "user", "name")
    return bool(user == f"system:serviceaccount:{found.namespace}:{found.service_account}")


CHECK = Check(
    code="K10",
    title="outside kube-system without FlowSchemas",
    severity=Severity.ADVICE,
    how="the controller's namespace and service account against FlowSchemas",
    mend="add FlowSchemas for it",
    needs=(Part.CONTROLLER, FLOW_SCHEMAS),
    find=find,
)
