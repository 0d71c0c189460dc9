"""Where the API server is and how to get in: a kubeconfig, or the pod's own identity."""

import ssl
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from dovetail.errors import BadInput, Mistake
from dovetail.kube.credentials import Credentials, FixedToken, Plugin, PluginToken, TokenFile
from dovetail.kube.tls import load_identity
from dovetail.ports.loop import Clock

MOUNTED: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's own identity."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """All that a connection needs."""

    server: str
    tls: ssl.SSLContext
    credentials: Credentials
    authority: str = ""
    """The certificate authority in PEM; empty when the system's own are trusted."""
    server_name: str | None = None
    """What the server's certificate is for, where that is not its address."""
    proxy: str | None = None
    """URL of a proxy in between."""


def find_access(
    file: str | None,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    context: str = "",
    mounted: Path = MOUNTED,
) -> Access:
    """Return the access to use; raises ``BadInput`` when there is none.

    In this order: ``file``, ``KUBECONFIG`` (which may name several), the identity
    of the pod we are in, ``~/.kube/config``.
    """
    if file is not None:
        return from_kubeconfig([Path(file)], environ=environ, clock=clock, context=context)
    named = [Path(one) for one in environ.get("KUBECONFIG", "").split(":") if one]
    if named:
        return from_kubeconfig(named, environ=environ, clock=clock, context=context)
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    if host and (mounted / "token").exists():
        return from_pod(host, environ.get("KUBERNETES_SERVICE_PORT", "443"), mounted, clock)
    usual = Path(environ.get("HOME", "/"), ".kube", "config")
    if usual.exists():
        return from_kubeconfig([usual], environ=environ, clock=clock, context=context)
    message = f"there is none: not in $KUBECONFIG, not at {usual}, and this is no pod of a cluster"
    raise _mistake("--kubeconfig:", "", message)


def from_pod(host: str, port: str, mounted: Path, clock: Clock) -> Access:
    """Return the access of the service account of the pod we run in."""
    authority = mounted / "ca.crt"
    shown = f"[{host}]" if ":" in host else host
    return Access(
        server=f"https://{shown}:{port}",
        tls=_tls(str(authority), authority=_text(authority)),
        credentials=TokenFile(mounted / "token", clock=clock),
        authority=_text(authority),
    )


def from_kubeconfig(
    files: Sequence[Path], *, environ: Mapping[str, str], clock: Clock, context: str = ""
) -> Access:
    """Return the access of one context, by default the current one."""
    whole = _Kubeconfig(files)
    chosen = whole.entry("contexts", context or whole.current())
    cluster = whole.entry("clusters", str(chosen.get("cluster") or ""))
    user = whole.entry("users", str(chosen.get("user") or "")) if chosen.get("user") else {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise _mistake(whole.shown, "server", f"{server!r} is no URL of an API server")
    authority = whole.content(cluster, "certificate-authority")
    tls = _tls(
        whole.shown,
        authority=authority,
        certificate=whole.content(user, "client-certificate"),
        key=whole.content(user, "client-key"),
        careless=bool(cluster.get("insecure-skip-tls-verify")),
    )
    return Access(
        server=server.rstrip("/"),
        tls=tls,
        credentials=_credentials(whole, user, environ, clock, tls),
        authority=authority,
        server_name=cluster.get("tls-server-name") or None,
        proxy=_proxy(whole, cluster),
    )


class _Kubeconfig:
    """One or several files read as one: of two entries of a name the first counts."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.shown = ":".join(map(str, files))
        self._parts = [(path.parent, _read(path)) for path in files]

    def current(self) -> str:
        for _, part in self._parts:
            if part.get("current-context"):
                return str(part["current-context"])
        raise _mistake(self.shown, "current-context", "is not set")

    def entry(self, kind: str, name: str) -> dict[str, Any]:
        """Return the context, cluster or user of a name, knowing where it was found."""
        for folder, part in self._parts:
            for one in part.get(kind) or ():
                if isinstance(one, dict) and one.get("name") == name:
                    content = one.get(kind[:-1])
                    return {**(content if isinstance(content, dict) else {}), "": folder}
        raise _mistake(self.shown, kind, f"there is no {name!r}")

    def content(self, entry: Mapping[str, Any], field: str) -> str:
        """Return a file's content: from ``<field>-data``, or from the file that is named."""
        data = entry.get(f"{field}-data")
        if data:
            try:
                return b64decode(str(data)).decode()
            except (NotBase64, UnicodeDecodeError):
                raise _mistake(self.shown, f"{field}-data", "is no base64 text") from None
        named = entry.get(field)
        return _text(Path(entry[""], str(named))) if named else ""


def _proxy(whole: _Kubeconfig, cluster: Mapping[str, Any]) -> str | None:
    given = str(cluster.get("proxy-url") or "")
    if given and not given.startswith(("http://", "https://")):
        message = f"{given!r} is no proxy that can be used; only http:// and https:// ones can"
        raise _mistake(whole.shown, "proxy-url", message)
    return given or None


def _credentials(
    whole: _Kubeconfig,
    user: Mapping[str, Any],
    environ: Mapping[str, str],
    clock: Clock,
    tls: ssl.SSLContext,
) -> Credentials:
    if user.get("token"):
        return FixedToken(str(user["token"]))
    if user.get("tokenFile"):
        return TokenFile(Path(user[""], str(user["tokenFile"])), clock=clock)
    plugin = user.get("exec")
    if isinstance(plugin, dict):
        return PluginToken(_plugin(whole, plugin, user[""], environ), clock=clock, tls=tls)
    for field in ("username", "password", "auth-provider"):
        if user.get(field):
            message = "is not in Kubernetes any more; use a token, a certificate or an exec plugin"
            raise _mistake(whole.shown, f"user.{field}", message)
    return FixedToken()


def _plugin(
    whole: _Kubeconfig, given: Mapping[str, Any], folder: Path, environ: Mapping[str, str]
) -> Plugin:
    command = str(given.get("command") or "")
    if not command:
        raise _mistake(whole.shown, "user.exec.command", "is missing")
    if "/" in command:
        command = str(Path(folder, command))
    added = {str(one["name"]): str(one["value"]) for one in given.get("env") or ()}
    return Plugin(
        command=command,
        arguments=tuple(str(one) for one in given.get("args") or ()),
        environment={**environ, **added},
        api_version=str(given.get("apiVersion") or "client.authentication.k8s.io/v1"),
        hint=" ".join(str(given.get("installHint") or "").split()),
    )


def _tls(
    shown: str, *, authority: str, certificate: str = "", key: str = "", careless: bool = False
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority or None)
    except ssl.SSLError as error:
        message = f"is no certificate in PEM ({error.reason or error})"
        raise _mistake(shown, "certificate-authority", message) from None
    if careless:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        try:
            load_identity(context, certificate, key)
        except ssl.SSLError as error:
            message = f"and client-key do not belong together ({error.reason or error})"
            raise _mistake(shown, "client-certificate", message) from None
    return context


def _read(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise _mistake(str(path), "", f"is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise _mistake(str(path), "", "is no kubeconfig")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise _mistake(str(path), "", f"cannot be read: {why}") from None


def _mistake(file: str, field: str, message: str) -> BadInput:
    return BadInput([Mistake(file, 0, field, message)])
