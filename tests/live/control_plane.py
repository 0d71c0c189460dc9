"""A Kubernetes control plane on loopback whose components can be restarted."""

import http.client
import json
import shutil
import socket
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.live.certificates import Authority, new_key, private_pem, public_pem
from tests.live.cluster import Cluster, wait_for
from tests.live.flags import AUDIT_LOG, apiserver_flags, controller_manager_flags, etcd_flags, scheduler_flags
from tests.live.process import Process

ADMINISTRATORS = "system:masters"
_BATCH_SIZE = 100
"""Objects per etcd transaction; etcd allows 128."""
_START_TIMEOUT = 120.0
"""Seconds; a busy host needs most of them."""


class ControlPlane(Cluster):
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each a process."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        webhook: str | None = None,
        audit_policy: Mapping[str, Any] | None = None,
        scheduler_qps: int = 500,
        node_grace: str = "4m",
        pod_autoscaler: bool = False,
    ) -> None:
        """``webhook`` is the URL of a token authentication webhook.

        With an audit policy, the API server writes ``audit_log``. ``scheduler_qps`` limits the
        requests of kube-scheduler, and so how fast it binds pods. ``node_grace`` is the time
        without heartbeat after which a node is not ready. ``pod_autoscaler`` runs the controller
        of HorizontalPodAutoscalers, with short periods.
        """
        self.folder = folder
        self._authority = Authority()
        self._ports = dict(zip(("etcd", "peer", "apiserver"), free_ports(3), strict=True))
        super().__init__(self.kubeconfig_for("admin", ADMINISTRATORS))
        self._write_certificates()

        def process(name: str, flags: list[str]) -> Process:
            return Process(name, [binary, name, *flags], folder / f"{name}.log")

        peer = f"http://127.0.0.1:{self._ports['peer']}"
        self.etcd = process("etcd", etcd_flags(folder, client=self._etcd_url, peer=peer))
        self.apiserver = process(
            "apiserver",
            apiserver_flags(
                folder,
                port=self._ports["apiserver"],
                etcd=self._etcd_url,
                webhook=self._write_webhook(webhook) if webhook else None,
                audit_policy=self._write_audit_policy(audit_policy) if audit_policy else None,
            ),
        )
        manager = self.kubeconfig_for("system:kube-controller-manager")
        self.controller_manager = process(
            "controller-manager",
            controller_manager_flags(folder, manager, node_grace=node_grace, pod_autoscaler=pod_autoscaler),
        )
        scheduler = self.kubeconfig_for("system:kube-scheduler")
        self.scheduler = process("scheduler", scheduler_flags(scheduler, qps=scheduler_qps))

    @property
    def processes(self) -> tuple[Process, ...]:
        """The components, in start order."""
        return (self.etcd, self.apiserver, self.controller_manager, self.scheduler)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._ports['apiserver']}"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log; absent without an audit policy."""
        return self.folder / AUDIT_LOG

    def start(self) -> None:
        """Start all components and wait until pods can be created; stop all on failure."""
        try:
            self.etcd.start()
            self.apiserver.start()
            self.wait_until_ready()
            self.controller_manager.start()
            self.scheduler.start()
            self._wait("pods can be created", self._has_default_account)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill all components and delete the data; the logs stay."""
        for process in reversed(self.processes):
            # No graceful stop: the data are deleted.
            process.kill()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def wait_until_ready(self) -> None:
        """Wait until the API server reports that it is ready."""
        self._wait("the API server is ready", self._is_ready)

    def restart_apiserver(self, *, compact: bool = False) -> None:
        """Kill the API server and start it again.

        With ``compact``, also delete old revisions: watches and paged lists
        that continue from one get 410 Gone.
        """
        self.apiserver.kill()
        if compact:
            self.compact()
        self.apiserver.start()
        self.wait_until_ready()

    def compact(self) -> int:
        """Compact etcd to its newest revision and return that revision."""
        key = b64encode(b"\0").decode()
        revision = int(self._call_etcd("range", {"key": key})["header"]["revision"])
        self._call_etcd("compaction", {"revision": str(revision), "physical": True})
        return revision

    def store(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """Write objects directly to etcd, by key: much faster than through the API server."""
        puts = [
            {"requestPut": {"key": _base64(key), "value": _base64(json.dumps(obj))}}
            for key, obj in objects.items()
        ]
        for start in range(0, len(puts), _BATCH_SIZE):
            self._call_etcd("txn", {"success": puts[start : start + _BATCH_SIZE]})

    def kubeconfig_for(self, user: str, *groups: str) -> Path:
        """Write a kubeconfig with a client certificate for a user; return its path."""
        signed = self._authority.for_user(user, *groups)
        credentials = {
            "client-certificate-data": b64encode(signed.certificate.encode()).decode(),
            "client-key-data": b64encode(signed.key.encode()).decode(),
        }
        return self._write_kubeconfig(user, credentials)

    def kubeconfig_for_account(self, name: str, namespace: str) -> Path:
        """Write a kubeconfig with a service account's token; return its path."""
        token = self.kubectl("create", "token", name, "-n", namespace, "--duration=8h").strip()
        return self._write_kubeconfig(f"{namespace}-{name}", {"token": token})

    @property
    def authority(self) -> str:
        """The CA certificate in base64, as in a kubeconfig."""
        return b64encode(self._authority.certificate.encode()).decode()

    def _write_audit_policy(self, policy: Mapping[str, Any]) -> Path:
        path = self.folder / "audit-policy.json"
        path.write_text(json.dumps(policy))
        return path

    def _write_webhook(self, address: str) -> Path:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "webhook", "cluster": {"server": address}}],
            "users": [{"name": "apiserver", "user": {}}],
            "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "apiserver"}}],
            "current-context": "webhook",
        }
        path = self.folder / "webhook.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def _write_kubeconfig(self, user: str, credentials: dict[str, str]) -> Path:
        cluster = {"server": self.url, "certificate-authority-data": self.authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "live", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "live", "context": {"cluster": "live", "user": user}}],
            "current-context": "live",
        }
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    def _write_certificates(self) -> None:
        serving, accounts = self._authority.for_server(), new_key()
        contents = {
            "ca.crt": self._authority.certificate,
            "apiserver.crt": serving.certificate,
            "apiserver.key": serving.key,
            "accounts.key": private_pem(accounts),
            "accounts.pub": public_pem(accounts),
        }
        for name, text in contents.items():
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_text(text)

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        def check() -> bool:
            for process in self.processes:
                process.check()
            return condition()

        try:
            wait_for(what, check, seconds=_START_TIMEOUT)
        except AssertionError as error:
            tails = "\n".join(process.tail() for process in self.processes)
            raise RuntimeError(f"{error}\n{tails}") from None

    def _is_ready(self) -> bool:
        return self.try_kubectl("get", "--raw=/readyz").returncode == 0

    def _has_default_account(self) -> bool:
        return self.try_kubectl("get", "serviceaccount", "default").returncode == 0

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._ports['etcd']}"

    def _call_etcd(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports["etcd"], timeout=30)
        with closing(connection):
            connection.request("POST", f"/v3/kv/{verb}", json.dumps(body))
            response = connection.getresponse()
            result: dict[str, Any] = json.load(response)
        assert response.status == http.client.OK, result
        return result


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def free_ports(count: int) -> list[int]:
    """Return distinct free ports: all are bound before any is released."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
