"""Where the API server is and how to get in: a kubeconfig, or the pod's own identity."""

import ssl
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from yarl import URL

from dovetail.errors import BadInput, Mistake
from dovetail.kube.auth.credentials import Credentials, FixedToken, KeptFresh, TokenFile
from dovetail.kube.auth.exec_plugin import Plugin, PluginToken
from dovetail.kube.auth.tls import Identity, load_identity, trusting
from dovetail.ports.event_loop import Clock

MOUNTED: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's own identity."""
_FOR_PLUGINS: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is meant for plugins."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """All that a connection needs."""

    server: str
    tls: ssl.SSLContext
    identity: Identity | None = None
    """Says what to use instead of ``tls`` by now, where certificates may change."""
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
    file = mounted / "ca.crt"
    authority = _text(file)
    identity = Identity(lambda: _tls(str(file), authority=_text(file)))
    shown = f"[{host}]" if ":" in host else host
    token = TokenFile(mounted / "token", clock=clock)
    return Access(
        server=f"https://{shown}:{port}",
        tls=identity.context,
        identity=identity,
        credentials=KeptFresh([file], renew=identity.renew, clock=clock, token=token),
        authority=authority,
    )


def from_kubeconfig(
    files: Sequence[Path], *, environ: Mapping[str, str], clock: Clock, context: str = ""
) -> Access:
    """Return the access of one context, by default the current one."""
    whole = _Kubeconfig(files)
    chosen = whole.entry("contexts", context or whole.current())
    cluster = whole.entry("clusters", str(chosen.get("cluster") or ""))
    user = whole.entry("users", str(chosen.get("user") or "")) if chosen.get("user") else {}

    def secured() -> ssl.SSLContext:
        return _tls(
            whole.shown,
            authority=whole.content(cluster, "certificate-authority"),
            certificate=whole.content(user, "client-certificate"),
            key=whole.content(user, "client-key"),
            careless=bool(cluster.get("insecure-skip-tls-verify")),
        )

    identity = Identity(secured)
    credentials = _credentials(whole, user, cluster, environ=environ, clock=clock, by=identity)
    named = whole.files(cluster, "certificate-authority")
    named += whole.files(user, "client-certificate", "client-key")
    if named:
        credentials = KeptFresh(named, renew=identity.renew, clock=clock, token=credentials)
    return Access(
        server=_server(whole, cluster),
        tls=identity.context,
        identity=identity,
        credentials=credentials,
        authority=whole.content(cluster, "certificate-authority"),
        server_name=str(cluster.get("tls-server-name") or "") or None,
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
            for one in _listed(part.get(kind)):
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
            except ValueError:
                raise _mistake(self.shown, f"{field}-data", "is no base64 text") from None
        named = entry.get(field)
        return _text(Path(entry[""], str(named))) if named else ""

    def files(self, entry: Mapping[str, Any], *fields: str) -> list[Path]:
        """Return the files that are named, and used as no data stands beside them."""
        return [
            Path(entry[""], str(entry[one]))
            for one in fields
            if entry.get(one) and not entry.get(f"{one}-data")
        ]


def _server(whole: _Kubeconfig, cluster: Mapping[str, Any]) -> str:
    given = str(cluster.get("server") or "")
    try:
        url = URL(given)
    except ValueError:
        url = URL()
    if url.user or url.password:
        # Not shown: what is in the log is seen by many.
        message = "has a user or a password in it; who we are is said in users"
        raise _mistake(whole.shown, "server", message)
    if url.scheme not in ("https", "http") or not url.host or url.query_string:
        raise _mistake(whole.shown, "server", f"{given!r} is no URL of an API server")
    return given.rstrip("/")


def _proxy(whole: _Kubeconfig, cluster: Mapping[str, Any]) -> str | None:
    given = str(cluster.get("proxy-url") or "")
    if given and not given.startswith(("http://", "https://")):
        kind = given.partition("://")[0]
        message = f"{kind}:// is no proxy that can be used; only http:// and https:// ones can"
        raise _mistake(whole.shown, "proxy-url", message)
    return given or None


def _credentials(
    whole: _Kubeconfig,
    user: Mapping[str, Any],
    cluster: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    clock: Clock,
    by: Identity,
) -> Credentials:
    if user.get("token"):
        return FixedToken(_token(whole, user))
    if user.get("tokenFile"):
        return TokenFile(Path(user[""], str(user["tokenFile"])), clock=clock)
    given = user.get("exec")
    if isinstance(given, dict):
        plugin = _plugin(whole, given, user[""], environ)
        if given.get("provideClusterInfo"):
            plugin = msgspec.structs.replace(plugin, cluster=_told_of(whole, cluster))
        return PluginToken(plugin, clock=clock, identity=by)
    for field in ("username", "password", "auth-provider"):
        if user.get(field):
            message = "is not in Kubernetes any more; use a token, a certificate or an exec plugin"
            raise _mistake(whole.shown, f"user.{field}", message)
    return FixedToken()


def _token(whole: _Kubeconfig, user: Mapping[str, Any]) -> str:
    token = str(user["token"]).strip()
    if not token.isprintable():
        raise _mistake(whole.shown, "user.token", "must be one line of printable characters")
    return token


def _plugin(
    whole: _Kubeconfig, given: Mapping[str, Any], folder: Path, environ: Mapping[str, str]
) -> Plugin:
    command = str(given.get("command") or "")
    if not command:
        raise _mistake(whole.shown, "user.exec.command", "is missing")
    if "/" in command:
        command = str(Path(folder, command))
    added = {}
    for one in _listed(given.get("env")):
        if not isinstance(one, dict) or "name" not in one:
            raise _mistake(whole.shown, "user.exec.env", "must be a list of names and values")
        added[str(one["name"])] = str(one.get("value") or "")
    return Plugin(
        command=command,
        arguments=tuple(str(one) for one in _listed(given.get("args"))),
        environment={**environ, **added},
        api_version=str(given.get("apiVersion") or "client.authentication.k8s.io/v1"),
        hint=" ".join(str(given.get("installHint") or "").split()),
    )


def _told_of(whole: _Kubeconfig, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plugin is told of the cluster."""
    authority = whole.content(cluster, "certificate-authority")
    told = {
        "server": cluster.get("server"),
        "tls-server-name": cluster.get("tls-server-name"),
        "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
        "certificate-authority-data": b64encode(authority.encode()).decode(),
        "proxy-url": cluster.get("proxy-url"),
    }
    for one in _listed(cluster.get("extensions")):
        if isinstance(one, dict) and one.get("name") == _FOR_PLUGINS:
            told["config"] = one.get("extension")
    return {name: value for name, value in told.items() if value}


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _tls(
    shown: str, *, authority: str, certificate: str = "", key: str = "", careless: bool = False
) -> ssl.SSLContext:
    try:
        context = trusting(authority)
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
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise _mistake(str(path), "", f"cannot be read: {why}") from None


def _mistake(file: str, field: str, message: str) -> BadInput:
    return BadInput([Mistake(file, 0, field, message)])
