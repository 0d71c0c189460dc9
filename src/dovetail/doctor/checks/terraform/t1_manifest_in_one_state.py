"""T1: the cluster and objects inside it are planned together."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import shown
from dovetail.doctor.terraform_source import blocks, makes_cluster


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out manifests beside the cluster that they need at planning time."""
    every = list(blocks(facts))
    clusters = [one for one in every if makes_cluster(one)]
    manifests = [
        one for one in every if one.kind == "resource" and one.labels[0] == "kubernetes_manifest"
    ]
    if clusters and manifests:
        yield Symptom(
            about=f"terraform/{manifests[0].file}",
            seen=f"{shown('.'.join(one.labels) for one in manifests)} beside "
            f"{'.'.join(clusters[0].labels)} in {clusters[0].file}",
            wrong="the plan fails while the cluster or its kinds are not there yet",
            fix="dovetail cluster render -f cluster.yaml --format terraform  # or wrap the "
            "objects in a helm_release, or give them a state of their own",
        )


CHECK = Check(
    code="T1",
    title="cluster and kubernetes_manifest in one state",
    severity=Severity.RISK,
    how="*.tf files: kubernetes_manifest beside aws_eks_cluster or an EKS module",
    mend="objects wrapped in a chart, or a second step",
    needs=(Part.TERRAFORM,),
    find=find,
)
