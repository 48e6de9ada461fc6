"""Decoding of lists and watch events: what is stored, skipped and reported."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import NodeObject, PodObject
from pyscheduler.api.quantity import QuantityError
from pyscheduler.core.state.signatures import PodSignatures
from pyscheduler.kube.decode import Identity, ObjectDecoder, Refusals, UnreadableList
from pyscheduler.testing import node, pod
from tests.unit.kube.fake_api import bookmark, event


class Counted(Refusals):
    """Refusals that collect the resources of reported objects."""

    def __init__(self) -> None:
        self.resources: list[str] = []
        super().__init__(self.resources.append)


def body(*items: Any, **meta: str) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "7", **meta}, "items": items})


def test_a_page_of_pods() -> None:
    page = ObjectDecoder("pods", PodObject, Refusals()).page(
        body(pod("a").version(3).manifest, pod("b").manifest, **{"continue": "next"})
    )
    assert (page.version, page.next) == ("7", "next")
    first, second = page.items
    assert first.identity == Identity("default", "a", "a", "3")
    assert isinstance(first.object, PodObject)
    assert second.identity.name == "b"


def test_items_may_be_null() -> None:
    page = ObjectDecoder("pods", PodObject, Refusals()).page(b'{"metadata":{},"items":null}')
    assert list(page.items) == []


@pytest.mark.parametrize("broken", [b"", b"[]", b"<html>", b'{"metadata":{},"items":7}', b'{"items":[{}'])
def test_malformed_list(broken: bytes) -> None:
    with pytest.raises(UnreadableList, match=r"^the list of pods cannot be read: "):
        ObjectDecoder("pods", PodObject, Refusals()).page(broken)


@pytest.mark.parametrize(
    ("broken", "identity"),
    [
        ({**pod("x").manifest, "spec": None}, Identity("default", "x", "x", "")),
        ({"metadata": {"name": 5, "namespace": "ns"}}, Identity("ns", "", "", "")),
        ({"metadata": []}, Identity()),
        (17, Identity()),
    ],
)
def test_undecodable_object_is_skipped_alone(broken: Any, identity: Identity, caplog: pytest.LogCaptureFixture) -> None:
    refusals = Counted()
    page = ObjectDecoder("pods", PodObject, refusals).page(body(pod("a").manifest, broken, pod("b").manifest))
    items = list(page.items)
    assert [item.object is not None for item in items] == [True, False, True]
    assert items[1].identity == identity
    assert refusals.resources == ["pods"]
    assert caplog.text.count("Skipped an object that cannot be read") == 1


def nested(name: str, levels: int, where: bytes = b'"managedFields"') -> bytes:
    """Return a pod with a metadata field of `levels` levels."""
    depths = b'{"a":' * levels + b"1" + b"}" * levels
    return b'{"metadata":{"name":"%s","uid":"u",%s:%s},"spec":{"containers":[]}}' % (name.encode(), where, depths)


def paired(name: str, half: bytes) -> bytes:
    return b'{"metadata":{"name":"%s","annotations":{"a":"%s"}},"spec":{"containers":[]}}' % (name.encode(), half)


UNUSUAL = [
    *(pytest.param(nested("odd", levels), True, id=f"{levels} levels") for levels in (960, 1100, 9_900, 100_000)),
    pytest.param(nested("odd", 9_900, b'"labels"'), False, id="too deep in a decoded field"),
    pytest.param(paired("odd", rb"\ud800"), True, id="lone surrogate"),
    pytest.param(paired("odd", rb"\udc00\ud800"), True, id="reversed surrogates"),
]


@pytest.mark.parametrize("type", [PodObject, dict[str, Any]])
@pytest.mark.parametrize(("odd", "readable"), UNUSUAL)
def test_unusual_object_does_not_affect_others(type: Any, odd: bytes, readable: bool) -> None:
    decoder: ObjectDecoder[Any] = ObjectDecoder("pods", type, Refusals())
    plain = msgspec.json.encode(pod("a").manifest)
    page = decoder.page(b'{"metadata":{"resourceVersion":"7"},"items":[' + odd + b"," + plain + b"]}")
    items = list(page.items)
    lines = [decoder.line(b'{"type":"ADDED","object":' + each + b"}").item for each in (odd, plain)]
    for found in (items, lines):
        assert [item.identity.name for item in found] == ["odd", "a"]
        assert [item.object is not None for item in found] == [readable or type is not PodObject, True]
    gone = decoder.line(b'{"type":"DELETED","object":' + odd + b"}")
    assert (gone.type, gone.item.identity.name) == ("DELETED", "odd")


def test_shortened_object_is_logged_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Counted()
    decoder = ObjectDecoder("pods", PodObject, refusals)
    line = b'{"type":"MODIFIED","object":' + nested("odd", 1_000_000) + b"}"
    for _ in range(3):
        decoder.line(line)
    decoder.line(event("ADDED", pod("a").manifest))
    assert refusals.resources == ["pods"] * 3
    assert caplog.text.count("Read an object without what is nested too deep in it") == 1


def test_events() -> None:
    decoder = ObjectDecoder("nodes", NodeObject, Refusals())
    added = decoder.line(event("ADDED", node("n").manifest))
    assert isinstance(added.item.object, NodeObject)
    deleted = decoder.line(event("DELETED", {**node("n").manifest, "status": "broken"}))
    assert (deleted.type, deleted.item.identity.name, deleted.item.object) == ("DELETED", "n", None)
    assert decoder.line(bookmark(12)).item.identity.version == "12"
    error = decoder.line(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"}))
    assert (error.code, error.message) == (410, "too old")


def test_valid_event_is_decoded_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = ObjectDecoder("pods", PodObject, Refusals())
    monkeypatch.setattr(decoder, "_part_by_part", None)
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        line = decoder.line(event(kind, pod("a").version(3).manifest))
        assert (line.type, line.item.identity) == (kind, Identity("default", "a", "a", "3"))


def test_error_event_that_resembles_a_pod_is_an_error() -> None:
    line = ObjectDecoder("pods", PodObject, Refusals()).line(
        event("ERROR", {**pod("a").manifest, "code": 410, "message": "too old"})
    )
    assert (line.type, line.code, line.message) == ("ERROR", 410, "too old")


@pytest.mark.parametrize(
    "broken", [b"{", b'{"type":1,"object":{}}', b'{"type":"ADDED"}', b'{"type":"ERROR","object":3}']
)
def test_malformed_event(broken: bytes) -> None:
    with pytest.raises(UnreadableList, match=r"^an event of the watch of pods cannot be read: "):
        ObjectDecoder("pods", PodObject, Refusals()).line(broken)


def test_other_kinds_are_dicts_without_managed_fields() -> None:
    refusals = Counted()
    decoder = ObjectDecoder("widgets", dict[str, Any], refusals)
    widget = {"metadata": {"name": "w", "managedFields": [1]}, "spec": {"size": 3}}
    good, bad = decoder.page(body(widget, {"spec": {}})).items
    assert good.object == {"metadata": {"name": "w"}, "spec": {"size": 3}}
    assert bad.object is None
    assert refusals.resources == ["widgets"]


def test_managed_fields_are_decoded_on_request() -> None:
    decoder = ObjectDecoder("queues", dict[str, Any], Counted(), managed_fields=True)
    queue = {"metadata": {"name": "q", "managedFields": [{"manager": "kubectl"}]}}
    assert [item.object for item in decoder.page(body(queue)).items] == [queue]


def test_a_problem_is_logged_once_and_counted_every_time(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Counted()
    for _ in range(3):
        with pytest.raises(QuantityError) as caught:
            PodSignatures().pod(pod("a").requests(cpu="lots").object())
        refusals.report("pods", "default", "a", caught.value)
    refusals.report("pods", "default", "a", ValueError("something else"))
    assert refusals.resources == ["pods"] * 4
    assert caplog.text.count("Skipped") == 2
