"""REST config of the API server: from a kubeconfig or the pod's service account."""

import ssl
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from yarl import URL

from dovetail.errors import InvalidInputError, ValidationError
from dovetail.kube.auth.credentials import Credentials, ReloadingCredentials, StaticToken, TokenFile
from dovetail.kube.auth.exec_plugin import ExecCredentials, ExecPlugin
from dovetail.kube.auth.tls import ClientTls, create_tls_context, load_client_certificate
from dovetail.ports.event_loop import Clock

SERVICE_ACCOUNT_DIR: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the service account token."""
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of the cluster extension that is passed to exec plugins."""


class RestConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a connection needs, as client-go's ``rest.Config``."""

    server: str
    tls: ssl.SSLContext
    client_tls: ClientTls | None = None
    """Replaces ``tls`` if certificates rotate."""
    credentials: Credentials
    ca_certificates: str = ""
    """CA bundle in PEM; empty if the system's CAs are trusted."""
    tls_server_name: str | None = None
    """Server name in the certificate, if it is not the host of the URL."""
    proxy: str | None = None
    """Proxy URL."""
    is_in_cluster: bool = False
    """True for the service account of a pod."""


def load_rest_config(
    file: str | None,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    context: str = "",
    service_account_dir: Path = SERVICE_ACCOUNT_DIR,
) -> RestConfig:
    """Return the access to use; raises ``InvalidInputError`` when there is none.

    Sources in order: ``file``, ``KUBECONFIG`` (one or several files), the service
    account of the pod, ``~/.kube/config``. Of several files in ``KUBECONFIG``, those
    that do not exist are skipped, as kubectl does.
    """
    if file is not None:
        return from_kubeconfig([Path(file)], environ=environ, clock=clock, context=context)
    paths = [Path(path) for path in environ.get("KUBECONFIG", "").split(":") if path]
    existing = [path for path in paths if path.exists()]
    if paths and not existing:
        names = ", ".join(map(str, paths))
        raise _invalid("KUBECONFIG", "", f"names no file that exists: {names}")
    if existing:
        return from_kubeconfig(existing, environ=environ, clock=clock, context=context)
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    if host and (service_account_dir / "token").exists():
        return in_cluster_config(
            host, environ.get("KUBERNETES_SERVICE_PORT", "443"), service_account_dir, clock
        )
    default = Path(environ.get("HOME", "/"), ".kube", "config")
    if default.exists():
        return from_kubeconfig([default], environ=environ, clock=clock, context=context)
    pod = "in a pod without a service account token" if host else "not in a pod"
    message = f"no kubeconfig found: not in $KUBECONFIG, not at {default}, and {pod}"
    raise _invalid("--kubeconfig:", "", message)


def in_cluster_config(host: str, port: str, service_account_dir: Path, clock: Clock) -> RestConfig:
    """Return the config of the pod's service account."""
    file = service_account_dir / "ca.crt"
    ca_bundle = _text(file)
    client_tls = ClientTls(lambda: _tls(str(file), ca_bundle=_text(file)))
    url_host = f"[{host}]" if ":" in host else host
    token = TokenFile(service_account_dir / "token", clock=clock)
    return RestConfig(
        server=f"https://{url_host}:{port}",
        tls=client_tls.context,
        client_tls=client_tls,
        credentials=ReloadingCredentials([file], reload=client_tls.reload, clock=clock, token=token),
        ca_certificates=ca_bundle,
        is_in_cluster=True,
    )


def from_kubeconfig(
    files: Sequence[Path], *, environ: Mapping[str, str], clock: Clock, context: str = ""
) -> RestConfig:
    """Return the config of a context, by default the current one."""
    kubeconfig = _Kubeconfig(files)
    chosen = kubeconfig.entry("contexts", context or kubeconfig.current())
    cluster = kubeconfig.entry("clusters", str(chosen.get("cluster") or ""))
    user = kubeconfig.entry("users", str(chosen.get("user") or "")) if chosen.get("user") else {}

    def create_context() -> ssl.SSLContext:
        return _tls(
            kubeconfig.names,
            ca_bundle=kubeconfig.content(cluster, "certificate-authority"),
            certificate=kubeconfig.content(user, "client-certificate"),
            key=kubeconfig.content(user, "client-key"),
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
        )

    client_tls = ClientTls(create_context)
    credentials = _credentials(kubeconfig, user, cluster, environ=environ, clock=clock, client_tls=client_tls)
    rotating = kubeconfig.files(cluster, "certificate-authority")
    rotating += kubeconfig.files(user, "client-certificate", "client-key")
    if rotating:
        credentials = ReloadingCredentials(rotating, reload=client_tls.reload, clock=clock, token=credentials)
    return RestConfig(
        server=_server(kubeconfig, cluster),
        tls=client_tls.context,
        client_tls=client_tls,
        credentials=credentials,
        ca_certificates=kubeconfig.content(cluster, "certificate-authority"),
        tls_server_name=str(cluster.get("tls-server-name") or "") or None,
        proxy=_proxy(kubeconfig, cluster),
    )


class _Kubeconfig:
    """One or several merged files; of entries with the same name the first counts."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.names = ":".join(map(str, files))
        self._parts = [(path.parent, _read(path)) for path in files]

    def current(self) -> str:
        for _, part in self._parts:
            if part.get("current-context"):
                return str(part["current-context"])
        raise _invalid(self.names, "current-context", "is not set")

    def entry(self, kind: str, name: str) -> dict[str, Any]:
        """Return a context, cluster or user, with the folder of its file under the key ""."""
        for folder, part in self._parts:
            for item in _as_list(part.get(kind)):
                if isinstance(item, dict) and item.get("name") == name:
                    content = item.get(kind[:-1])
                    return {**(content if isinstance(content, dict) else {}), "": folder}
        raise _invalid(self.names, kind, f"there is no {name!r}")

    def content(self, entry: Mapping[str, Any], field: str) -> str:
        """Return a file's content: from ``<field>-data``, or from the named file."""
        data = entry.get(f"{field}-data")
        if data:
            try:
                return b64decode(str(data)).decode()
            except ValueError:
                raise _invalid(self.names, f"{field}-data", "is not Base64") from None
        path = entry.get(field)
        return _text(Path(entry[""], str(path))) if path else ""

    def files(self, entry: Mapping[str, Any], *fields: str) -> list[Path]:
        """Return the named files that are used: fields without ``-data``."""
        return [
            Path(entry[""], str(entry[field]))
            for field in fields
            if entry.get(field) and not entry.get(f"{field}-data")
        ]


def _server(kubeconfig: _Kubeconfig, cluster: Mapping[str, Any]) -> str:
    configured = str(cluster.get("server") or "")
    try:
        url = URL(configured)
    except ValueError:
        url = URL()
    if url.user or url.password:
        # The URL is not in the message: it contains a secret.
        message = "contains a user or a password; configure credentials in users"
        raise _invalid(kubeconfig.names, "server", message)
    if url.scheme not in ("https", "http") or not url.host or url.query_string:
        raise _invalid(kubeconfig.names, "server", f"{configured!r} is not the URL of an API server")
    return configured.rstrip("/")


def _proxy(kubeconfig: _Kubeconfig, cluster: Mapping[str, Any]) -> str | None:
    configured = str(cluster.get("proxy-url") or "")
    if configured and not configured.startswith(("http://", "https://")):
        kind = configured.partition("://")[0]
        message = f"{kind}:// proxies are not supported; use http:// or https://"
        raise _invalid(kubeconfig.names, "proxy-url", message)
    return configured or None


def _credentials(
    kubeconfig: _Kubeconfig,
    user: Mapping[str, Any],
    cluster: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    clock: Clock,
    client_tls: ClientTls,
) -> Credentials:
    if user.get("token"):
        return StaticToken(_token(kubeconfig, user))
    if user.get("tokenFile"):
        return TokenFile(Path(user[""], str(user["tokenFile"])), clock=clock)
    configured = user.get("exec")
    if isinstance(configured, dict):
        plugin = _plugin(kubeconfig, configured, user[""], environ)
        if configured.get("provideClusterInfo"):
            plugin = msgspec.structs.replace(plugin, cluster=_cluster_info(kubeconfig, cluster))
        return ExecCredentials(plugin, clock=clock, client_tls=client_tls)
    for field in ("username", "password", "auth-provider"):
        if user.get(field):
            message = "is not supported by Kubernetes any more; use a token, a certificate or an exec plugin"
            raise _invalid(kubeconfig.names, f"user.{field}", message)
    return StaticToken()


def _token(kubeconfig: _Kubeconfig, user: Mapping[str, Any]) -> str:
    token = str(user["token"]).strip()
    if not token.isprintable():
        raise _invalid(kubeconfig.names, "user.token", "must be one line of printable characters")
    return token


def _plugin(
    kubeconfig: _Kubeconfig, configured: Mapping[str, Any], folder: Path, environ: Mapping[str, str]
) -> ExecPlugin:
    command = str(configured.get("command") or "")
    if not command:
        raise _invalid(kubeconfig.names, "user.exec.command", "is missing")
    if "/" in command:
        command = str(Path(folder, command))
    added = {}
    for variable in _as_list(configured.get("env")):
        if not isinstance(variable, dict) or "name" not in variable:
            raise _invalid(kubeconfig.names, "user.exec.env", "must be a list of names and values")
        added[str(variable["name"])] = str(variable.get("value") or "")
    return ExecPlugin(
        command=command,
        arguments=tuple(str(argument) for argument in _as_list(configured.get("args"))),
        environment={**environ, **added},
        api_version=str(configured.get("apiVersion") or "client.authentication.k8s.io/v1"),
        hint=" ".join(str(configured.get("installHint") or "").split()),
    )


def _cluster_info(kubeconfig: _Kubeconfig, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster info for an exec plugin."""
    ca_bundle = kubeconfig.content(cluster, "certificate-authority")
    info = {
        "server": cluster.get("server"),
        "tls-server-name": cluster.get("tls-server-name"),
        "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
        "certificate-authority-data": b64encode(ca_bundle.encode()).decode(),
        "proxy-url": cluster.get("proxy-url"),
    }
    for extension in _as_list(cluster.get("extensions")):
        if isinstance(extension, dict) and extension.get("name") == _EXEC_EXTENSION:
            info["config"] = extension.get("extension")
    return {name: value for name, value in info.items() if value}


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _tls(
    file_names: str, *, ca_bundle: str, certificate: str = "", key: str = "", insecure: bool = False
) -> ssl.SSLContext:
    try:
        context = create_tls_context(ca_bundle)
    except ssl.SSLError as error:
        message = f"is not a PEM certificate ({error.reason or error})"
        raise _invalid(file_names, "certificate-authority", message) from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        try:
            load_client_certificate(context, certificate, key)
        except ssl.SSLError as error:
            message = f"and client-key do not belong together ({error.reason or error})"
            raise _invalid(file_names, "client-certificate", message) from None
    return context


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise _invalid(str(path), "", f"is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise _invalid(str(path), "", "is not a kubeconfig")
    return document


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise _invalid(str(path), "", f"cannot be read: {reason}") from None


def _invalid(file: str, field: str, message: str) -> InvalidInputError:
    return InvalidInputError([ValidationError(file, 0, field, message)])
