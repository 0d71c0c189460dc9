"""Where the API server is and who we are: from files, from plugins, from the pod we are in."""

import asyncio
import ssl
import sys
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import InvalidInputError
from dovetail.kube.auth.credentials import CredentialsError, TokenFile
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.ports.api_resources import NAMESPACES
from dovetail.simulator.rest.certificate import create_certificate
from dovetail.simulator.rest.sandbox import encode_kubeconfig
from tests.simulator.rest.rest_server import TOKEN, serve_cluster


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


def result(file: Path | None = None, **environ: str) -> RestConfig:
    named = None if file is None else str(file)
    return load_rest_config(named, environ=environ, clock=Clock(), service_account_dir=Path("/nowhere"))


def token_of(access: RestConfig, *, refused: bool = False) -> str:
    return asyncio.run(access.credentials.token(rejected=refused))


def written(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    config = encode_kubeconfig("https://example.test:6443", "unused", "")
    config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] = {"server": "https://example.test:6443/", **cluster}
    path.write_text(yaml.safe_dump(config))
    return path


def mistake_of(file: Path) -> str:
    with pytest.raises(InvalidInputError) as refused:
        result(file)
    return str(refused.value)


def test_the_kubeconfig_of_the_sandbox_connects_to_its_server(tmp_path: Path) -> None:
    with serve_cluster() as cluster:
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(encode_kubeconfig(cluster.url, TOKEN, cluster.certificate)))
        access = result(file)

        async def names() -> list[str]:
            limit = RateLimiter(clock=asyncio.get_running_loop().time)
            connection = Connection(access, rate_limiter=limit, user_agent="test")
            listed = await HttpKubeClient(connection).list(NAMESPACES)
            await connection.close()
            await asyncio.sleep(0.05)
            return [entry["metadata"]["name"] for entry in listed]

        assert "default" in asyncio.run(names())
        assert access.ca_certificates == cluster.certificate


def test_a_static_token_is_used_unchanged(tmp_path: Path) -> None:
    access = result(written(tmp_path / "config", {"token": "secret"}))

    assert access.server == "https://example.test:6443"
    assert token_of(access) == "secret"


def test_of_several_kubeconfig_files_the_first_entry_counts(tmp_path: Path) -> None:
    first = written(tmp_path / "first", {"token": "first"})
    second = written(tmp_path / "second", {"token": "second"})

    access = result(KUBECONFIG=f"{first}:{second}")

    assert token_of(access) == "first"


def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    access = result(written(tmp_path / "config", {"tokenFile": "token"}))

    assert token_of(access) == "from a file"


def test_a_pod_uses_its_service_account_and_reloads_its_token(tmp_path: Path) -> None:
    with serve_cluster() as cluster:
        (tmp_path / "ca.crt").write_text(cluster.certificate)
    (tmp_path / "token").write_text("old")
    clock = Clock()
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    access = load_rest_config(None, environ=environ, clock=clock, service_account_dir=tmp_path)
    before = token_of(access)
    (tmp_path / "token").write_text("new")
    soon = token_of(access)
    clock.moment += timedelta(minutes=1)
    later = token_of(access)
    (tmp_path / "token").write_text("newest")
    refused = token_of(access, refused=True)

    assert access.server == "https://10.0.0.1:443"
    assert (before, soon, later, refused) == ("old", "old", "new", "newest")


def test_a_pod_without_a_service_account_token_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as elsewhere:
        result(HOME=str(tmp_path))
    with pytest.raises(InvalidInputError) as in_a_pod:
        result(HOME=str(tmp_path), KUBERNETES_SERVICE_HOST="10.0.0.1")

    assert str(elsewhere.value).endswith(", and not in a pod")
    assert str(in_a_pod.value).endswith(", and in a pod without a service account token")


def a_plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    script = tmp_path / "plugin.py"
    script.write_text(body)
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": sys.executable,
        "args": [str(script)],
        "env": [{"name": "WHO", "value": "me"}],
    }


PRINTS = """\
import json, os, pathlib
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path(__file__).with_name("count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(json.dumps({
    "kind": "ExecCredential", "apiVersion": asked["apiVersion"],
    "status": {
        "token": f"{os.environ['WHO']}-{number}",
        "expirationTimestamp": "2026-01-01T00:15:00Z",
    },
}))
"""


def test_a_plugin_token_is_refreshed_before_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    file = written(tmp_path / "config", {"exec": a_plugin(tmp_path, PRINTS)})
    access = load_rest_config(str(file), environ={"PATH": "/usr/bin"}, clock=clock)

    async def ask() -> list[str]:
        token = access.credentials.token
        many = await asyncio.gather(token(), token(), token())
        again = await token()
        refused = await asyncio.gather(token(rejected=True), token(rejected=True))
        clock.moment += timedelta(minutes=14, seconds=40)
        return [*many, again, *refused, await token()]

    assert asyncio.run(ask()) == ["me-1", "me-1", "me-1", "me-1", "me-2", "me-2", "me-3"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("import sys; sys.exit('Unable to locate credentials')", "Unable to locate credentials"),
        ("print('hello')", "printed no ExecCredential"),
        ("print('{\"status\": {}}')", "printed no token"),
    ],
)
def test_a_failed_plugin_is_quoted(tmp_path: Path, body: str, text: str) -> None:
    access = result(written(tmp_path / "config", {"exec": a_plugin(tmp_path, body)}))

    with pytest.raises(CredentialsError, match=text):
        token_of(access)


def test_a_missing_plugin_is_named_with_its_install_hint(tmp_path: Path) -> None:
    plugin = {"command": "no-such-program", "installHint": "install it\nfirst"}
    access = result(written(tmp_path / "config", {"exec": plugin}))

    with pytest.raises(CredentialsError, match=r"no-such-program cannot be run.*install it first"):
        token_of(access)


def test_tls_verification_is_skipped_only_if_configured(tmp_path: Path) -> None:
    strict = result(written(tmp_path / "strict", {"token": "x"}))
    careless = result(written(tmp_path / "careless", {"token": "x"}, **{"insecure-skip-tls-verify": True}))

    assert strict.tls.verify_mode is ssl.CERT_REQUIRED
    assert careless.tls.verify_mode is ssl.CERT_NONE


def test_errors_of_a_kubeconfig_name_file_and_field(tmp_path: Path) -> None:
    broken, empty, nowhere = tmp_path / "broken", tmp_path / "empty", tmp_path / "nowhere"
    broken.write_text("a: [")
    empty.write_text("apiVersion: v1\n")
    bad = b64encode(b"no certificate").decode()

    assert "is not YAML" in mistake_of(broken)
    assert "current-context" in mistake_of(empty)
    assert "cannot be read" in mistake_of(nowhere)
    authority = written(tmp_path / "c", {}, **{"certificate-authority-data": bad})
    assert "certificate-authority" in mistake_of(authority)
    assert "user.username" in mistake_of(written(tmp_path / "u", {"username": "me"}))
    assert "not the URL" in mistake_of(written(tmp_path / "s", {}, server="example.test"))


def test_without_credentials_all_sources_are_listed() -> None:
    with pytest.raises(InvalidInputError, match=r"not in \$KUBECONFIG, not at /home/me/.kube/config"):
        result(HOME="/home/me")


def test_a_token_may_end_with_a_newline(tmp_path: Path) -> None:
    assert token_of(result(written(tmp_path / "config", {"token": "abc\n"}))) == "abc"


def test_comments_between_certificates_may_be_in_any_language(tmp_path: Path) -> None:
    noted = "# Größe: für uns\n" + create_certificate().certificate
    data = b64encode(noted.encode()).decode()

    access = result(written(tmp_path / "config", {}, **{"certificate-authority-data": data}))

    assert len(access.tls.get_ca_certs()) == 1


def test_an_unreadable_token_file_keeps_the_last_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    clock = Clock()
    credentials = TokenFile(tmp_path / "token", clock=clock)
    before = asyncio.run(credentials.token())

    after = []
    for content in (b"", b"\xff\xfe", None):
        if content is None:
            (tmp_path / "token").unlink()
        else:
            (tmp_path / "token").write_bytes(content)
        clock.moment += timedelta(minutes=1)
        after.append(asyncio.run(credentials.token()))

    assert (before, after) == ("old", ["old"] * 3)


@pytest.mark.parametrize(
    ("content", "text"), [(b" \n", "contains no token"), (b"\xff", "is not text"), (b"a\nb", "contains no")]
)
def test_a_file_without_a_token_is_named(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(CredentialsError, match=text):
        asyncio.run(TokenFile(tmp_path / "token", clock=Clock()).token())


@pytest.mark.parametrize(
    "field", [{"server": "https://me:hunter2@x"}, {"proxy-url": "socks5://me:hunter2@x"}]
)
def test_passwords_in_urls_are_not_in_messages(tmp_path: Path, field: dict[str, str]) -> None:
    message = mistake_of(written(tmp_path / "config", {}, **field))

    assert next(iter(field)) in message
    assert "hunter2" not in message


WHOLE: dict[str, Any] = {
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [
        {
            "name": "c",
            "cluster": {
                "server": "https://x:1",
                "certificate-authority-data": "",
                "certificate-authority": "",
                "tls-server-name": "x",
                "proxy-url": "http://p:1",
                "extensions": [{"name": "e", "extension": {}}],
            },
        }
    ],
    "users": [
        {
            "name": "u",
            "user": {
                "exec": {
                    "command": "a",
                    "args": ["b"],
                    "env": [{"name": "x", "value": "y"}],
                    "provideClusterInfo": True,
                },
                "token": "",
                "client-certificate-data": "",
                "client-key": "",
            },
        }
    ],
}
ODD = st.one_of(
    st.none(),
    st.integers(),
    st.booleans(),
    st.text(max_size=5),
    st.lists(st.one_of(st.none(), st.text(max_size=2), st.integers()), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=1),
    st.binary(max_size=12).map(lambda content: b64encode(content).decode()),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything in a value."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


@settings(max_examples=200, deadline=None)
@given(at=st.sampled_from(places(WHOLE)), odd=ODD)
def test_any_invalid_kubeconfig_is_a_validation_error(
    tmp_path_factory: pytest.TempPathFactory, at: tuple[Any, ...], odd: Any
) -> None:
    file = tmp_path_factory.getbasetemp() / "odd-kubeconfig"
    file.write_text(yaml.safe_dump(replaced(WHOLE, at, odd)), encoding="utf-8")

    with suppress(InvalidInputError):
        assert result(file).server.startswith("http")


def test_missing_files_in_a_list_of_kubeconfigs_are_skipped(tmp_path: Path) -> None:
    there = written(tmp_path / "there", {"token": "there"})

    access = result(KUBECONFIG=f"{tmp_path / 'missing'}:{there}")

    assert token_of(access) == "there"


def test_a_list_of_kubeconfigs_without_any_file_names_them_all() -> None:
    with pytest.raises(InvalidInputError, match="names no file that exists: /a, /b"):
        result(KUBECONFIG="/a:/b")
