"""Incremental decoding of lists: the objects of the whole list, before its end."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from pyscheduler.api import PodObject
from pyscheduler.kube.decode import Item, ObjectDecoder, Page, Refusals, UnreadableList
from pyscheduler.kube.listing import STRETCH, ListReader
from pyscheduler.testing import pod

HEAD = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next"},"items":['
MANIFESTS = [pod(f"plain-{n}").version(n + 1).manifest for n in range(40)]
PLAIN = [msgspec.json.encode({key: each[key] for key in ("metadata", "spec")}) for each in MANIFESTS]
WITH_KIND = [b'{"apiVersion":"v1","kind":"Pod",' + each[1:] for each in PLAIN]
BETWEEN = '},{"metadata":{'


def odd(name: str, more: bytes) -> bytes:
    return b'{"metadata":{"name":"%s","uid":"u"},"spec":{"containers":[]},"more":%s}' % (name.encode(), more)


INSIDE = b",".join([b'{"metadata":{"name":"not-me"},"spec":{"containers":[]}}'] * 60)
ODD = {
    "nothing unusual": b"1",
    "contains many objects": b"[" + INSIDE + b"]",
    "contains a list": b'{"a":1,"items":[' + INSIDE + b"]}",
    "a string with list syntax": msgspec.json.encode(f'"items":[{{"a":1{BETWEEN}{BETWEEN}"'),
    "nested too deep": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "lone surrogate": rb'"\ud800"',
    "longer than a stretch": msgspec.json.encode("x" * 20_000),
}


def lists(strange: bytes) -> Iterator[tuple[str, bytes]]:
    objects = [odd("odd-first", strange), *PLAIN[:20], odd("odd", strange), *PLAIN[20:], odd("odd-too", strange)]
    items = b",".join(objects)
    yield "as an API server writes it", HEAD + items + b"]}\n"
    yield "the envelope last", b'{"apiVersion":"v1","items":[' + items + b'],"metadata":{"resourceVersion":"7"}}'
    yield "nothing before the objects", b'{"items":[' + items + b'],"metadata":{"resourceVersion":"7"}}'
    yield "whitespace between", HEAD + items.replace(b"},{", b"} , {") + b"]}"


CASES = [
    pytest.param(body, type, id=f"{what}, {how}, {'dict' if type is not PodObject else 'pod'}")
    for what, strange in ODD.items()
    for how, body in lists(strange)
    for type in (PodObject, dict[str, Any])
]


def read(reader: ListReader[Any], chunks: Sequence[bytes]) -> tuple[list[Item[Any]], Page[Any]]:
    early = [item for chunk in chunks for item in reader.feed(chunk)]
    return early, reader.rest()


def decoder(type: Any = PodObject) -> ObjectDecoder[Any]:
    return ObjectDecoder("pods", type, Refusals())


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@pytest.mark.parametrize("size", [500, 3001])
@pytest.mark.parametrize(("body", "type"), CASES)
def test_objects_do_not_depend_on_the_chunk_size(body: bytes, type: Any, size: int) -> None:
    whole = decoder(type).page(body)
    early, page = read(ListReader(decoder(type), 2000), cut(body, size))
    assert [*early, *page.items] == list(whole.items)
    assert (page.version, page.next) == (whole.version, whole.next)


@pytest.mark.parametrize("objects", [PLAIN, WITH_KIND], ids=["of a list", "with their kinds"])
def test_objects_are_returned_as_soon_as_they_are_complete(objects: Sequence[bytes]) -> None:
    body = HEAD + b",".join(objects)
    half = body.find(objects[20]) + 100
    given = list(ListReader(decoder(), 1000).feed(body[:half]))
    assert [item.identity.name for item in given] == [f"plain-{n}" for n in range(20)]


def test_long_list_is_never_buffered_completely() -> None:
    chance = random.Random(1)
    reader = ListReader(decoder())
    objects = [odd(f"pod-{n}", msgspec.json.encode("x" * chance.randint(1, 5000))) for n in range(2000)]
    body = HEAD + b",".join(objects) + b"]}"
    early, page = read(reader, cut(body, STRETCH // 3))
    assert len(body) > 15 * STRETCH
    assert len(list(page.items)) < len(objects) / 10
    assert len(early) > len(objects) * 9 / 10


def test_wrong_cut_is_corrected_by_the_next_chunk() -> None:
    body = HEAD + odd("odd", ODD["contains many objects"]) + b"," + b",".join(PLAIN)
    reader = ListReader(decoder(), 2000)
    assert list(reader.feed(body[:2000])) == []
    assert next(iter(reader.feed(body[2000:]))).identity.name == "odd"


def test_undecodable_object_does_not_delay_later_ones() -> None:
    unreadable = b'{"metadata":{"name":"broken"},"spec":7}'
    body = HEAD + b",".join([PLAIN[0], unreadable, *PLAIN[1:30]])
    given = list(ListReader(decoder(), 1000).feed(body))
    assert [(item.identity.name, item.object is not None) for item in given[:3]] == [
        ("plain-0", True),
        ("broken", False),
        ("plain-1", True),
    ]


@pytest.mark.parametrize("broken", [b"", b"[]", b"<html>", b'{"kind":"Status","items":7}', HEAD + PLAIN[0] * 9])
def test_malformed_list(broken: bytes) -> None:
    with pytest.raises(UnreadableList, match=r"^the list of pods cannot be read: "):
        read(ListReader(decoder(), 10), cut(broken, 50))


def test_truncated_list_is_rejected() -> None:
    reader = ListReader(decoder(), 1000)
    list(reader.feed(HEAD + b",".join(PLAIN)))
    with pytest.raises(UnreadableList):
        reader.rest()
