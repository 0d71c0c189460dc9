"""The controller's own CustomResourceDefinitions."""

from dovetail.infra.doctor.facts import Facts
from dovetail.infra.doctor.kinds import CRDS
from dovetail.infra.doctor.seeing import at
from dovetail.ports.kube import Object

GROUPS = ("karpenter.sh", "karpenter.k8s.aws")


def definitions(facts: Facts) -> list[Object]:
    """Return those in the cluster."""
    return [one for one in facts.of(CRDS) if at(one, "spec", "group") in GROUPS]
