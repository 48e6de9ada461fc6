"""However lists, pieces of watches and answers reach the store, it shows the newest that was told, and never what went.

A history of pods is drawn, and what sources could have told of it: lists at any place, pieces of a watch of any length,
single states. They are merged in any order, some twice. Slow subscribers look in now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pyscheduler.backend import PodSnapshotStore, PodsSnapshot, PodState, Subscription

NAMES = ("a", "b", "c")


class History:
    """What happened to pods: one change a version, from 1 on."""

    def __init__(self, steps: Sequence[tuple[str, bool]]) -> None:
        """Each step is about a name: it is created or changed, or (True) deleted if it is there."""
        self.changes: list[tuple[PodState, bool]] = []
        self.at: list[dict[str, PodState]] = [{}]
        for version, (name, deletes) in enumerate(steps, 1):
            now = dict(self.at[-1])
            known = now.get(name)
            pod = PodState(name=name, uid=known.uid if known else f"{name}-{version}", version=version)
            gone = deletes and known is not None
            now.pop(name, None)
            if not gone:
                now[name] = pod
            self.changes.append((pod, gone))
            self.at.append(now)

    @property
    def end(self) -> int:
        return len(self.changes)

    def listed(self, place: int) -> PodsSnapshot:
        return PodsSnapshot(pods=self.at[place], complete=True, resource_version=place)

    def watched(self, since: int, place: int) -> PodsSnapshot:
        pods: dict[str, PodState] = {}
        gone: dict[str, PodState] = {}
        for pod, went in self.changes[since:place]:
            if went:
                gone[pod.uid] = pod
                pods.pop(pod.name, None)
            else:
                pods[pod.name] = pod
        return PodsSnapshot(pods=pods, deleted=gone, since=since, resource_version=place)

    def answered(self, version: int) -> PodsSnapshot:
        pod, gone = self.changes[version - 1]
        return PodsSnapshot(pods={} if gone else {pod.name: pod})

    def went_by(self, place: int) -> set[str]:
        return {pod.uid for pod, gone in self.changes[:place] if gone}


class Reader:
    """A subscriber that keeps a picture of its own."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.pods: dict[str, PodState] = {}
        self.went: set[str] = set()

    def look(self) -> None:
        if not self.subscription._ready.is_set():
            return
        told = asyncio.run(self.subscription.next())
        for uid, pod in told.deleted.items():
            self.went.add(uid)
            if pod.name in self.pods and self.pods[pod.name].uid == uid:
                del self.pods[pod.name]
        if told.complete:
            assert self.pods.keys() <= told.pods.keys(), "a complete picture left out what is not told to be gone"
        for name, pod in told.pods.items():
            before = self.pods.get(name)
            assert pod.uid not in self.went, f"{pod.uid} came back"
            if before is not None and before.uid == pod.uid:
                assert pod.version >= before.version, f"{name} went back to version {pod.version}"
            if before is not None and before.uid != pod.uid:
                assert before.uid in self.went, f"nobody was told that {before.uid} went"
            self.pods[name] = pod


def check(history: History, store: PodSnapshotStore, reader: Reader, everything: dict[str, int]) -> None:
    """What must hold after every merge."""
    for pod in store.pods.values():
        assert pod.version >= everything.get(pod.uid, 0), f"{pod.uid} went back to version {pod.version}"
        everything[pod.uid] = pod.version
    place = store.resource_version
    if store.synced and place is not None:
        there = {pod.uid: pod.version for pod in store.pods.values()}
        assert not history.went_by(place) & there.keys(), f"what went by {place} is still there: {there}"
        for pod in history.at[place].values():
            later = pod.uid in history.went_by(history.end) and pod.uid not in there
            assert later or there.get(pod.uid, 0) >= pod.version, f"{pod.uid} is not as it was at {place}: {there}"
    assert len(reader.subscription._pods) <= len(NAMES)


STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=12)


@st.composite
def tellings(draw: st.DrawFn) -> tuple[History, int | None, list[tuple[PodsSnapshot, bool]]]:
    """A history, where the store was resumed, and what is merged in which order; with each whether the reader looks."""
    history = History(draw(STEPS))
    places = st.integers(0, history.end)
    told = [history.listed(place) for place in draw(st.lists(places, max_size=4))]
    cuts = sorted({0, history.end, *draw(st.lists(places, max_size=4))})
    told += [history.watched(since, place) for since, place in pairwise(cuts)]
    told += [history.answered(version) for version in draw(st.lists(st.integers(1, history.end), max_size=3))]
    told += draw(st.lists(st.sampled_from(told), max_size=3))
    order = draw(st.permutations(told))
    looks = draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order)))
    return history, draw(st.sampled_from([None, 0])), list(zip(order, looks, strict=True))


Drawn = tuple[History, int | None, list[tuple[PodsSnapshot, bool]]]


@given(tellings())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_any_order_leads_to_the_same_picture(drawn: Drawn) -> None:
    leads_to_the_same_picture(drawn)


def leads_to_the_same_picture(drawn: Drawn) -> None:
    history, resumed, told = drawn
    store = PodSnapshotStore(resumed)
    reader, everything = Reader(store.subscribe()), dict[str, int]()
    for snapshot, looks in told:
        before = dict(store.pods)
        store.merge(snapshot)
        check(history, store, reader, everything)
        if looks:
            reader.look()
            assert reader.pods == store.pods
        lost = {pod.uid for pod in before.values()} - {pod.uid for pod in store.pods.values()}
        assert lost <= reader.went | set(reader.subscription._gone), "a pod went and nobody will be told"
    store.merge(history.listed(history.end))
    reader.look()
    assert store.pods == history.at[history.end]
    assert reader.pods == store.pods
    assert store.resource_version == history.end
    assert store.history_size == 0, "deletions are remembered that nobody can contradict any more"


def _no_tombstones(store: PodSnapshotStore, pod: PodState, at: int) -> None:
    _forget(store, pod, at)
    store._gone.clear()


def _no_versions(store: PodSnapshotStore, pod: PodState, *, exists: bool) -> None:
    known = store.pods.get(pod.name)
    if known is not None and pod.uid not in store._gone:
        known = store.pods[pod.name] = msgspec.structs.replace(known, version=-1)
    _saw(store, pod, exists=exists)


def _bold_list(store: PodSnapshotStore, told: PodsSnapshot) -> None:
    _listed(store, msgspec.structs.replace(told, resource_version=1_000))


def _all_news(store: PodSnapshotStore, pod: PodState, *, exists: bool) -> None:
    _saw(store, pod, exists=True)


def _silent(subscription: Subscription, pod: PodState) -> None:
    subscription._pods.pop(pod.name, None)


_forget, _saw, _listed = (getattr(PodSnapshotStore, name) for name in ("_forget", "_merge_pod", "_merge_list"))

PLANTED = {
    "deletions are not remembered": (PodSnapshotStore, "_forget", _no_tombstones),
    "the last to tell is right": (PodSnapshotStore, "_merge_pod", _no_versions),
    "a list deletes what is newer than it": (PodSnapshotStore, "_merge_list", _bold_list),
    "old states of unknown pods are news": (PodSnapshotStore, "_merge_pod", _all_news),
    "a subscriber is not told of what went": (Subscription, "on_delete", _silent),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, bug = PLANTED[planted]
    monkeypatch.setattr(owner, name, bug)
    seeking = settings(
        max_examples=500,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with pytest.raises(AssertionError):
        seeking(given(tellings())(leads_to_the_same_picture))()
