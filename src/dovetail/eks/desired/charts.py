"""Charts of add-ons and controllers, and the EKS add-ons that are known here."""

from typing import Final

import msgspec


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A Helm chart: in a repository, at an oci:// address, or in a directory."""

    chart: str
    repository: str | None = None
    version: str | None = None
    namespace: str = "kube-system"


ADDONS: Final[dict[str, Chart]] = {
    "metrics-server": Chart(
        chart="metrics-server",
        repository="https://kubernetes-sigs.github.io/metrics-server",
        version="3.12.2",
    ),
    "kube-state-metrics": Chart(
        chart="kube-state-metrics",
        repository="https://prometheus-community.github.io/helm-charts",
        version="5.28.0",
    ),
    "keda": Chart(
        chart="keda", repository="https://kedacore.github.io/charts", version="2.16.1", namespace="keda"
    ),
    "vertical-pod-autoscaler": Chart(
        chart="vpa", repository="https://charts.fairwinds.com/stable", version="4.7.1"
    ),
    "kube-ops-view": Chart(
        chart="kube-ops-view", repository="https://christianhuth.github.io/helm-charts", version="3.6.0"
    ),
    "node-termination-handler": Chart(
        chart="oci://public.ecr.aws/aws-ec2/helm/aws-node-termination-handler", version="0.27.0"
    ),
}
CONTROLLERS: Final[dict[str, tuple[Chart, Chart]]] = {
    "dovetail": (Chart(chart="deploy/charts/dovetail"), Chart(chart="deploy/charts/dovetail-crd")),
    "karpenter": (
        Chart(chart="oci://public.ecr.aws/karpenter/karpenter", version="1.8.1"),
        Chart(chart="oci://public.ecr.aws/karpenter/karpenter-crd", version="1.8.1"),
    ),
}
"""Charts of the controller and of its CRDs: Helm never updates CRDs inside a chart."""


def is_chart_directory(location: str) -> bool:
    """Return True for a directory; other locations are oci:// addresses, or names in a repository."""
    return "/" in location and "://" not in location


CONTROLLER_CHARTS: Final = frozenset(
    chart.chart.rpartition("/")[2] for charts in CONTROLLERS.values() for chart in charts
)
"""Names of the charts of controllers."""
CHARTS_WITH_CRDS: Final = frozenset({"keda", "vpa"})
"""Names of charts whose CRDs can have objects of the user."""


class EksAddonFacts(msgspec.Struct, frozen=True):
    """The service account of an EKS add-on, and the managed policies it needs."""

    service_account: str = ""
    policies: tuple[str, ...] = ()
    namespace: str = "kube-system"


EKS_ADDONS: Final[dict[str, EksAddonFacts]] = {
    "amazon-cloudwatch-observability": EksAddonFacts(
        "cloudwatch-agent", ("CloudWatchAgentServerPolicy", "AWSXrayWriteOnlyAccess"), "amazon-cloudwatch"
    ),
    "aws-ebs-csi-driver": EksAddonFacts("ebs-csi-controller-sa", ("service-role/AmazonEBSCSIDriverPolicy",)),
    "aws-efs-csi-driver": EksAddonFacts("efs-csi-controller-sa", ("service-role/AmazonEFSCSIDriverPolicy",)),
    "aws-fsx-csi-driver": EksAddonFacts("fsx-csi-controller-sa", ("AmazonFSxFullAccess",)),
    # Its policy names the buckets.
    "aws-mountpoint-s3-csi-driver": EksAddonFacts("s3-csi-driver-sa"),
    "adot": EksAddonFacts(),
    "aws-guardduty-agent": EksAddonFacts(),
    "aws-secrets-store-csi-driver-provider": EksAddonFacts(),
    "cert-manager": EksAddonFacts(),
    "eks-node-monitoring-agent": EksAddonFacts(),
    "external-dns": EksAddonFacts("external-dns", ("AmazonRoute53FullAccess",), "external-dns"),
    "prometheus-node-exporter": EksAddonFacts(),
    "snapshot-controller": EksAddonFacts(),
}
"""EKS add-ons without a field in cluster.yaml; others are accepted too."""
