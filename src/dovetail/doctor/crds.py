"""The controller's own CustomResourceDefinitions."""

from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.facts import Facts
from dovetail.doctor.object_fields import at
from dovetail.ports.kube_client import Object

GROUPS = ("karpenter.sh", "karpenter.k8s.aws")


def definitions(facts: Facts) -> list[Object]:
    """Return those in the cluster."""
    return [one for one in facts.of(CRDS) if at(one, "spec", "group") in GROUPS]
