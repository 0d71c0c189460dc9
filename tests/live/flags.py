"""The flags with which the components of the control plane start."""

from pathlib import Path

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
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
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
"""Those whose work Dovetail sees; nothing here routes traffic, attaches disks or signs."""


def etcd_flags(folder: Path, *, client: str, peer: str) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--client-url={client}",
        f"--peer-url={peer}",
    ]


def apiserver_flags(folder: Path, *, port: int, etcd: str, webhook: Path | None) -> list[str]:
    asked = [f"--authentication-token-webhook-config-file={webhook}", *_NEVER_OLD]
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
        # Nothing is reachable under an address of a Service here.
        "--endpoint-reconciler-type=none",
        "--profiling=false",
        *(asked if webhook else ()),
    ]


def controller_manager_flags(folder: Path, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        # Each controller with the rights that Kubernetes gives it, as in a real cluster.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={folder / 'accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        *_ALONE,
        # All virtual kubelets share a thread, which a busy machine may keep waiting.
        "--node-monitor-grace-period=4m",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler_flags(kubeconfig: Path) -> list[str]:
    return [f"--kubeconfig={kubeconfig}", *_ALONE, "--kube-api-qps=500", "--kube-api-burst=1000"]


_NEVER_OLD = [
    "--authentication-token-webhook-version=v1",
    # Who may do what changes from one test to the next.
    "--authentication-token-webhook-cache-ttl=1s",
]
_ALONE = ["--leader-elect=false", "--secure-port=0", "--profiling=false"]
"""There is one of each, and nobody asks it for metrics."""
