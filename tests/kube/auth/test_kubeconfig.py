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

from dovetail.errors import BadInput
from dovetail.kube.auth.credentials import NoCredentials, TokenFile
from dovetail.kube.auth.kubeconfig import Access, find_access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimit
from dovetail.ports.api_resources import NAMESPACES
from dovetail.simulator.rest.certificate import new_certificate
from dovetail.simulator.rest.kubeconfig import kubeconfig
from tests.simulator.rest.serving import TOKEN, a_cluster


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


def found(file: Path | None = None, **environ: str) -> Access:
    named = None if file is None else str(file)
    return find_access(named, environ=environ, clock=Clock(), mounted=Path("/nowhere"))


def token_of(access: Access, *, refused: bool = False) -> str:
    return asyncio.run(access.credentials.token(refused=refused))


def written(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    config = kubeconfig("https://example.test:6443", "unused", "")
    config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] = {"server": "https://example.test:6443/", **cluster}
    path.write_text(yaml.safe_dump(config))
    return path


def mistake_of(file: Path) -> str:
    with pytest.raises(BadInput) as refused:
        found(file)
    return str(refused.value)


def test_the_sandboxes_kubeconfig_leads_to_its_server(tmp_path: Path) -> None:
    with a_cluster() as cluster:
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(kubeconfig(cluster.url, TOKEN, cluster.certificate)))
        access = found(file)

        async def names() -> list[str]:
            limit = RateLimit(clock=asyncio.get_running_loop().time)
            connection = Connection(access, limit=limit, agent="test")
            listed = await HttpKube(connection).list(NAMESPACES)
            await connection.close()
            await asyncio.sleep(0.05)
            return [one["metadata"]["name"] for one in listed]

        assert "default" in asyncio.run(names())
        assert access.authority == cluster.certificate


def test_a_token_in_the_file_is_used_as_it_is(tmp_path: Path) -> None:
    access = found(written(tmp_path / "config", {"token": "secret"}))

    assert access.server == "https://example.test:6443"
    assert token_of(access) == "secret"


def test_kubeconfig_may_name_several_files_of_which_the_first_counts(tmp_path: Path) -> None:
    first = written(tmp_path / "first", {"token": "first"})
    second = written(tmp_path / "second", {"token": "second"})

    access = found(KUBECONFIG=f"{first}:{second}")

    assert token_of(access) == "first"


def test_files_are_named_from_where_the_kubeconfig_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    access = found(written(tmp_path / "config", {"tokenFile": "token"}))

    assert token_of(access) == "from a file"


def test_a_pod_uses_its_own_identity_and_reads_its_token_again(tmp_path: Path) -> None:
    with a_cluster() as cluster:
        (tmp_path / "ca.crt").write_text(cluster.certificate)
    (tmp_path / "token").write_text("old")
    clock = Clock()
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    access = find_access(None, environ=environ, clock=clock, mounted=tmp_path)
    before = token_of(access)
    (tmp_path / "token").write_text("new")
    soon = token_of(access)
    clock.moment += timedelta(minutes=1)
    later = token_of(access)
    (tmp_path / "token").write_text("newest")
    refused = token_of(access, refused=True)

    assert access.server == "https://10.0.0.1:443"
    assert (before, soon, later, refused) == ("old", "old", "new", "newest")


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


def test_a_plugin_is_asked_for_a_token_and_again_before_it_ends(tmp_path: Path) -> None:
    clock = Clock()
    file = written(tmp_path / "config", {"exec": a_plugin(tmp_path, PRINTS)})
    access = find_access(str(file), environ={"PATH": "/usr/bin"}, clock=clock)

    async def ask() -> list[str]:
        token = access.credentials.token
        many = await asyncio.gather(token(), token(), token())
        again = await token()
        refused = await asyncio.gather(token(refused=True), token(refused=True))
        clock.moment += timedelta(minutes=14, seconds=40)
        return [*many, again, *refused, await token()]

    assert asyncio.run(ask()) == ["me-1", "me-1", "me-1", "me-1", "me-2", "me-2", "me-3"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("import sys; sys.exit('Unable to locate credentials')", "Unable to locate credentials"),
        ("print('hello')", "printed no ExecCredential"),
        ("print('{\"status\": {}}')", "printed no token"),
    ],
)
def test_a_plugin_that_gives_no_token_is_quoted(tmp_path: Path, body: str, told: str) -> None:
    access = found(written(tmp_path / "config", {"exec": a_plugin(tmp_path, body)}))

    with pytest.raises(NoCredentials, match=told):
        token_of(access)


def test_a_plugin_that_is_not_there_is_named_with_its_hint(tmp_path: Path) -> None:
    plugin = {"command": "no-such-program", "installHint": "install it\nfirst"}
    access = found(written(tmp_path / "config", {"exec": plugin}))

    with pytest.raises(NoCredentials, match=r"no-such-program cannot be run.*install it first"):
        token_of(access)


def test_verification_is_skipped_only_where_the_file_says_so(tmp_path: Path) -> None:
    strict = found(written(tmp_path / "strict", {"token": "x"}))
    careless = found(
        written(tmp_path / "careless", {"token": "x"}, **{"insecure-skip-tls-verify": True})
    )

    assert strict.tls.verify_mode is ssl.CERT_REQUIRED
    assert careless.tls.verify_mode is ssl.CERT_NONE


def test_what_is_wrong_with_a_kubeconfig_is_said_with_its_place(tmp_path: Path) -> None:
    broken, empty, nowhere = tmp_path / "broken", tmp_path / "empty", tmp_path / "nowhere"
    broken.write_text("a: [")
    empty.write_text("apiVersion: v1\n")
    bad = b64encode(b"no certificate").decode()

    assert "is no YAML" in mistake_of(broken)
    assert "current-context" in mistake_of(empty)
    assert "cannot be read" in mistake_of(nowhere)
    authority = written(tmp_path / "c", {}, **{"certificate-authority-data": bad})
    assert "certificate-authority" in mistake_of(authority)
    assert "user.username" in mistake_of(written(tmp_path / "u", {"username": "me"}))
    assert "no URL" in mistake_of(written(tmp_path / "s", {}, server="example.test"))


def test_without_any_way_in_all_that_was_tried_is_said() -> None:
    with pytest.raises(BadInput, match=r"not in \$KUBECONFIG, not at /home/me/.kube/config"):
        found(HOME="/home/me")


def test_a_token_may_end_with_a_line(tmp_path: Path) -> None:
    assert token_of(found(written(tmp_path / "config", {"token": "abc\n"}))) == "abc"


def test_notes_between_certificates_may_be_in_any_language(tmp_path: Path) -> None:
    noted = "# Größe: für uns\n" + new_certificate().certificate
    data = b64encode(noted.encode()).decode()

    access = found(written(tmp_path / "config", {}, **{"certificate-authority-data": data}))

    assert len(access.tls.get_ca_certs()) == 1


def test_a_mounted_token_that_cannot_be_read_any_more_is_used_as_it_was(tmp_path: Path) -> None:
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
    ("content", "told"),
    [(b" \n", "holds no token"), (b"\xff", "is no text"), (b"a\nb", "holds no")],
)
def test_a_file_that_never_held_a_token_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(NoCredentials, match=told):
        asyncio.run(TokenFile(tmp_path / "token", clock=Clock()).token())


@pytest.mark.parametrize(
    "field", [{"server": "https://me:hunter2@x"}, {"proxy-url": "socks5://me:hunter2@x"}]
)
def test_passwords_in_urls_are_not_shown(tmp_path: Path, field: dict[str, str]) -> None:
    told = mistake_of(written(tmp_path / "config", {}, **field))

    assert next(iter(field)) in told
    assert "hunter2" not in told


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
    st.binary(max_size=12).map(lambda one: b64encode(one).decode()),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything in a value."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [path, *(one for key, part in inner for one in places(part, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


@settings(max_examples=200, deadline=None)
@given(at=st.sampled_from(places(WHOLE)), odd=ODD)
def test_no_kubeconfig_is_too_odd_to_be_a_mistake(
    tmp_path_factory: pytest.TempPathFactory, at: tuple[Any, ...], odd: Any
) -> None:
    file = tmp_path_factory.getbasetemp() / "odd-kubeconfig"
    file.write_text(yaml.safe_dump(replaced(WHOLE, at, odd)), encoding="utf-8")

    with suppress(BadInput):
        assert found(file).server.startswith("http")
