"""Store: revisions, events, history and compaction."""

from __future__ import annotations

import pytest

from pyscheduler.embedded.history import ADDED, DELETED, MODIFIED, Event
from pyscheduler.embedded.status import ApiStatusError
from pyscheduler.embedded.store import Store

Key = tuple[str, str]


def thing(name: str, value: int = 0) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "a"}, "value": value}


def put(store: Store, name: str, value: int = 0, namespace: str = "a") -> int:
    return store.put("things", (namespace, name), thing(name, value)).revision


def record_events(store: Store) -> list[tuple[str, str, int]]:
    events: list[tuple[str, str, int]] = []

    def record(event: Event) -> None:
        events.append((event.kind, event.version.key[1], event.revision))

    store.subscribe("things", record)
    return events


def test_changes_get_consecutive_revisions_and_are_delivered_in_order() -> None:
    store = Store()
    seen = record_events(store)
    first, second = put(store, "x"), put(store, "y")
    third = put(store, "x", 1)
    last = store.remove("things", ("a", "x"))
    assert seen == [(ADDED, "x", first), (ADDED, "y", second), (MODIFIED, "x", third), (DELETED, "x", last.revision)]
    assert [first, second, third, last.revision] == list(range(first, first + 4))
    assert last.object["metadata"]["resourceVersion"] == str(last.revision)


def test_writing_an_equal_object_emits_no_event() -> None:
    store = Store()
    before = put(store, "x", 1)
    seen = record_events(store)
    assert put(store, "x", 1) == before
    assert store.revision == before
    assert seen == []


def test_stored_version_never_changes() -> None:
    store = Store()
    put(store, "x", 1)
    old = store.get("things", ("a", "x"))
    put(store, "x", 2)
    assert old is not None
    assert old.object["value"] == 1
    assert b'"value":1' in old.json()


def test_scan_is_sorted_and_limited_to_its_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "1"), ("a", "2"), ("a", "1"), ("ab", "0")):
        put(store, name, namespace=namespace)
    assert [v.key for v in store.scan("things")] == [("a", "1"), ("a", "2"), ("ab", "0"), ("b", "1")]
    assert [v.key for v in store.scan("things", "a")] == [("a", "1"), ("a", "2")]
    assert [v.key for v in store.scan("things", "a", after=("a", "1"))] == [("a", "2")]


def test_past_revision_is_readable_until_compaction() -> None:
    store = Store()
    put(store, "remaining", 1)
    put(store, "removed", 1)
    then = store.revision
    put(store, "remaining", 2)
    put(store, "remaining", 3)
    store.remove("things", ("a", "removed"))
    put(store, "new", 1)
    past = {v.key[1]: v.object["value"] for v in store.scan_at("things", then)}
    assert past == {"remaining": 1, "removed": 1}
    store.compact()
    with pytest.raises(ApiStatusError) as caught:
        store.scan_at("things", then)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_future_revision_is_not_readable() -> None:
    store = Store()
    with pytest.raises(ApiStatusError) as caught:
        store.scan_at("things", store.revision + 1)
    assert caught.value.code == 504
    assert caught.value.body()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(("after", "expected"), [(0, 3), (1, 2), (2, 1), (3, 0)])
def test_history_resumes_after_a_revision(after: int, expected: int) -> None:
    store = Store()
    revisions = [0, *(put(store, name) for name in "xyz")]
    assert len(store.bucket("things").history.since(revisions[after])) == expected


def test_full_history_drops_its_oldest_half() -> None:
    store = Store(history=10)
    first = put(store, "x", 0)
    for value in range(1, 25):
        put(store, "x", value)
    history = store.bucket("things").history
    assert len(history) < 20
    with pytest.raises(ApiStatusError):
        history.since(first)
    assert len(history.since(store.revision - 5)) == 5
