"""Objects that a reflector has emitted."""

from __future__ import annotations

from pyscheduler.kube.known_objects import KnownObject, KnownObjects

WEB, DB = KnownObject("1", "10"), KnownObject("2", "11")


def test_objects_are_counted_by_namespace_and_name() -> None:
    known = KnownObjects()
    for key in (("a", "web"), ("b", "web"), ("a", "web")):
        known.put(key, WEB)
    assert len(known) == 2
    assert known.keys() == [("a", "web"), ("b", "web")]


def test_newest_version_is_returned() -> None:
    known = KnownObjects()
    known.put(("a", "web"), WEB)
    known.put(("a", "web"), DB)
    assert known.get(("a", "web")) == DB
    assert known.get(("b", "web")) is known.get(("a", "db")) is None


def test_popped_object_is_gone() -> None:
    known = KnownObjects()
    known.put(("a", "web"), WEB)
    assert known.pop(("a", "web")) == WEB
    assert known.pop(("a", "web")) is None
    assert (len(known), known.keys()) == (0, [])
