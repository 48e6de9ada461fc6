"""Protobuf bodies, encoded by hand as Go programs encode them."""

from __future__ import annotations

import pytest

from pyscheduler.embedded.status import ApiStatusError
from pyscheduler.embedded.wire.decode import MAGIC, decode_object
from pyscheduler.embedded.wire.table import message_name, messages


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, *content: bytes | str) -> bytes:
    body = b"".join(piece.encode() if isinstance(piece, str) else piece for piece in content)
    return varint(field << 3 | 2) + varint(len(body)) + body


def envelope(api_version: str, kind: str, *content: bytes) -> bytes:
    return MAGIC + part(1, part(1, api_version), part(2, kind)) + part(2, *content)


def test_pod_of_a_go_client_is_decoded() -> None:
    zero_time = part(8)
    meta = part(1, part(1, "p"), part(3, ""), number(7, 0), zero_time, part(11, part(1, "a"), part(2, "b")))
    requests = part(8, part(2, part(1, "cpu"), part(2, part(1, "500m"))))
    container = part(2, part(1, "c"), part(2, "image:1"), requests, number(16, 0), part(6, number(2, 0), number(3, 80)))
    volume = part(1, part(1, "v"), part(2, part(2)))
    spec = part(2, volume, container, number(4, 0), part(3, ""), number(11, 0), part(10, "n1"))
    assert decode_object(envelope("v1", "Pod", meta, spec, part(3))) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "c",
                    "image": "image:1",
                    "resources": {"requests": {"cpu": "500m"}},
                    "ports": [{"containerPort": 80}],
                }
            ],
            "terminationGracePeriodSeconds": 0,
            "nodeName": "n1",
        },
    }


def test_special_types_are_decoded() -> None:
    lease = part(2, part(1, "me"), number(2, -5), part(4, number(1, 1_700_000_000), number(2, 5_000)))
    assert decode_object(envelope("coordination.k8s.io/v1", "Lease", lease))["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": -5,
        "renewTime": "2023-11-14T22:13:20.000005Z",
    }
    secret = part(2, part(1, "key"), part(2, b"\x00\x01"))
    assert decode_object(envelope("v1", "Secret", secret))["data"] == {"key": "AAE="}
    budget = part(2, part(1, number(1, 1), part(3, "50%")), part(3, number(2, 3)))
    assert decode_object(envelope("policy/v1", "PodDisruptionBudget", budget))["spec"] == {
        "minAvailable": "50%",
        "maxUnavailable": 3,
    }


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("v1", "Pod", "Pod"),
        ("apps/v1", "Deployment", "apps.Deployment"),
        ("rbac.authorization.k8s.io/v1", "Role", "rbac.Role"),
        ("policy/v1", "DeleteOptions", "DeleteOptions"),
        ("example.com/v1", "Gang", ""),
    ],
)
def test_message_names(api_version: str, kind: str, expected: str) -> None:
    assert message_name(api_version, kind) == expected


def test_referenced_messages_exist() -> None:
    table = messages()
    wanted = {field.message for fields in table.values() for field in fields.values() if field.message}
    assert wanted <= table.keys()


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (MAGIC, 415),
        (MAGIC + b"\x0a\xff", 400),
        (MAGIC + b"\xff" * 20, 400),
        (envelope("v1", "Pod", b"\x0a\x05ab"), 400),
        (envelope("v1", "Pod", b"\x0b"), 400),
        (envelope("example.com/v1", "Gang"), 415),
    ],
)
def test_malformed_bodies_are_rejected(raw: bytes, code: int) -> None:
    with pytest.raises(ApiStatusError) as caught:
        decode_object(raw)
    assert caught.value.code == code
