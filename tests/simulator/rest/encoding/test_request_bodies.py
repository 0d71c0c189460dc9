"""Bodies of requests: YAML takes little work, and has JSON's values only."""

import json

import pytest

from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.rest.encoding.request_bodies import decode_yaml
from tests.codec.text.test_yaml_reader import LARGE, a_config_map, a_pod, count_values, to_yaml
from tests.support.work import count_calls

MAX_CALLS_PER_VALUE = 20


def test_a_yaml_body_of_2500_kilobytes_has_the_same_object_as_json() -> None:
    config_map = a_config_map(97_000)
    body = to_yaml(config_map)
    assert len(body) > LARGE

    assert decode_yaml(body) == decode_yaml(json.dumps(config_map).encode()) == config_map


def test_a_yaml_body_takes_little_work_for_each_value() -> None:
    pod = a_pod(2_000)
    body = to_yaml(pod)

    assert count_calls(lambda: decode_yaml(body)) < MAX_CALLS_PER_VALUE * count_values(pod)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a: &a [x, x]\nb: [*a, *a]\n", "aliases"),
        (b"a: 1\na: 2\n", "duplicate key 'a'"),
        (b"[" * 500, "nested"),
        (b"a: !!python/object:os.system x", "tag"),
        (b"\xff\xfe\xfd", "not valid YAML"),
        (b"a: 1\n---\nb: 2\n", "more than one document"),
    ],
)
def test_yaml_that_is_no_single_json_value_is_rejected(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        decode_yaml(body)
