"""Kubernetes' protobuf, written by hand and read back."""

import pytest

from dovetail.ports.kube_errors import BadRequest, UnsupportedMediaType
from dovetail.simulator.rest.encoding.protobuf import decode_protobuf


def number(value: int) -> bytes:
    out = bytearray()
    value &= 2**64 - 1
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def field(at: int, value: bytes | int | str) -> bytes:
    if isinstance(value, int):
        return number(at << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(data)) + data


def envelope(version: str, kind: str, content: bytes) -> bytes:
    return b"k8s\0" + field(1, field(1, version) + field(2, kind)) + field(2, content)


META = field(1, field(1, "web") + field(11, field(1, "app") + field(2, "web")) + field(7, 0))


def test_a_deployment_is_read_with_its_numbers_maps_and_amounts() -> None:
    amount = field(1, "cpu") + field(2, field(1, "250m"))
    container = field(1, "app") + field(2, "app:1") + field(8, field(2, amount))
    strategy = field(1, "RollingUpdate") + field(2, field(1, field(1, 1) + field(3, "25%")))
    volume = field(1, "scratch") + field(2, field(2, b""))
    pod = field(1, volume) + field(2, container) + field(4, 0) + field(11, 0)
    spec = field(1, 3) + field(3, field(2, pod)) + field(4, strategy)

    read = decode_protobuf(envelope("apps/v1", "Deployment", META + field(2, spec)))

    assert read == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 3,
            "template": {
                "spec": {
                    "volumes": [{"name": "scratch", "emptyDir": {}}],
                    "containers": [
                        {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "250m"}}}
                    ],
                    "terminationGracePeriodSeconds": 0,
                    "hostNetwork": False,
                }
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
        },
    }


def test_times_bytes_and_negative_numbers_are_read() -> None:
    born = field(8, field(1, 1767225600))
    secret = field(1, field(1, "s") + born) + field(2, field(1, "key") + field(2, b"\x00\xff"))
    priority = field(1, field(1, "low")) + field(2, -7)

    kept = decode_protobuf(envelope("v1", "Secret", secret))
    low = decode_protobuf(envelope("scheduling.k8s.io/v1", "PriorityClass", priority))

    assert kept["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert kept["data"] == {"key": "AP8="}
    assert low["value"] == -7


def test_a_message_cut_anywhere_in_its_object_is_refused() -> None:
    content = META + field(2, field(1, 3))
    whole = envelope("apps/v1", "Deployment", content)

    for end in range(len(whole) - len(content), len(whole)):
        with pytest.raises(BadRequest, match="not valid protobuf"):
            decode_protobuf(whole[:end])


def test_a_kind_without_numbers_is_not_taken() -> None:
    with pytest.raises(UnsupportedMediaType, match="send JSON"):
        decode_protobuf(envelope("example.com/v1", "Unicorn", b""))
