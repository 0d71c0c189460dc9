"""Command-line flags of the control plane components."""

from pathlib import Path

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
"""Controllers whose results Dovetail reads or simulates; none for disks or certificates."""

AUDIT_LOG = "audit.log"


def etcd_flags(folder: Path, *, client: str, peer: str) -> list[str]:
    return [f"--data-dir={folder / 'etcd'}", f"--client-url={client}", f"--peer-url={peer}"]


def apiserver_flags(
    folder: Path, *, port: int, etcd: str, webhook: Path | None, audit_policy: Path | None
) -> list[str]:
    authentication = [f"--authentication-token-webhook-config-file={webhook}", *_WEBHOOK]
    audit = [
        f"--audit-policy-file={audit_policy}",
        f"--audit-log-path={folder / AUDIT_LOG}",
        # A rotated file would lose entries.
        "--audit-log-maxsize=10000",
    ]
    return [
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        # There is no network for Service addresses.
        "--endpoint-reconciler-type=none",
        "--profiling=false",
        *(authentication if webhook else ()),
        *(audit if audit_policy else ()),
    ]


POD_AUTOSCALER = "horizontal-pod-autoscaler-controller"
"""Runs on request only: it needs a metrics API."""


def controller_manager_flags(
    folder: Path, kubeconfig: Path, *, node_grace: str, pod_autoscaler: bool = False
) -> list[str]:
    controllers = (*CONTROLLERS, POD_AUTOSCALER) if pod_autoscaler else CONTROLLERS
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        *(_QUICK_POD_AUTOSCALER if pod_autoscaler else ()),
        # Each controller has its own service account and permissions, as in a real cluster.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={folder / 'accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        *_SINGLE,
        # All virtual kubelets share a thread, which a busy host delays.
        f"--node-monitor-grace-period={node_grace}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler_flags(kubeconfig: Path, *, qps: int) -> list[str]:
    return [f"--kubeconfig={kubeconfig}", *_SINGLE, f"--kube-api-qps={qps}", f"--kube-api-burst={2 * qps}"]


_QUICK_POD_AUTOSCALER = [
    "--horizontal-pod-autoscaler-sync-period=1s",
    # The default is five minutes.
    "--horizontal-pod-autoscaler-downscale-stabilization=2s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
]
_WEBHOOK = [
    "--authentication-token-webhook-version=v1",
    # Users and their groups change from test to test.
    "--authentication-token-webhook-cache-ttl=1s",
]
_SINGLE = ["--leader-elect=false", "--secure-port=0", "--profiling=false"]
"""One replica without leader election and metrics."""
