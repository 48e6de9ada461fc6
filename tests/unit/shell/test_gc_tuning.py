"""Long-lived objects are frozen, and the collector's settings are restored at the end."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pyscheduler.shell.gc_tuning import (
    FULL_COLLECTION_EVERY,
    LONG,
    CollectorBySize,
    GcTuning,
    collection_paused,
    defer_first_collection,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # another test may have changed them
    yield
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.set_threshold(*thresholds)


class Watch:
    """A manual clock."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def collection(collector: GcTuning, watch: Watch, *, seconds: float, generation: int = 2) -> None:
    """Report a collection of `seconds` to the collector's callback."""
    collector.on_collection("start", {"generation": generation})
    watch.seconds += seconds
    collector.on_collection("stop", {"generation": generation})


def test_no_collection_while_paused() -> None:
    with collection_paused(), collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_resume_after_an_exception() -> None:
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()


def test_objects_at_the_start_are_frozen() -> None:
    thresholds, kept = gc.get_threshold(), [[n] for n in range(1000)]
    with GcTuning():
        assert gc.get_freeze_count() >= len(kept)
        assert gc.get_threshold()[0] > thresholds[0]
    assert gc.get_threshold() == thresholds


def test_no_collection_during_imports() -> None:
    defer_first_collection()
    collections = gc.get_stats()[0]["collections"]
    kept = [[n] for n in range(100_000)]
    assert gc.get_stats()[0]["collections"] == collections
    assert kept


@pytest.mark.parametrize(
    ("seconds", "generation", "frozen"),
    [
        pytest.param(LONG, 2, True, id="long full collection"),
        pytest.param(LONG / 2, 2, False, id="short full collection"),
        pytest.param(LONG, 1, False, id="young generation"),
    ],
)
def test_survivors_are_frozen_after_a_long_full_collection(seconds: float, generation: int, frozen: bool) -> None:
    watch = Watch()
    with collection_paused(), GcTuning(watch) as collector:
        before, kept = gc.get_freeze_count(), [[n] for n in range(5000)]
        collection(collector, watch, seconds=seconds, generation=generation)
        added = gc.get_freeze_count() - before  # objects that were frozen before may be freed meanwhile
        assert (added > len(kept) // 2) is frozen


def test_too_many_frozen_objects_are_not_collected_again() -> None:
    watch = Watch()
    with collection_paused(), GcTuning(watch, max_frozen=1000) as collector:
        collection(collector, watch, seconds=LONG)
        watch.seconds = FULL_COLLECTION_EVERY
        collection(collector, watch, seconds=0.0)
        assert gc.get_freeze_count() > 1000


def test_frozen_objects_are_collected_once_an_hour() -> None:
    watch = Watch()
    with collection_paused(), GcTuning(watch, max_frozen=10**9) as collector:
        collection(collector, watch, seconds=LONG)
        assert gc.get_freeze_count() > 0
        watch.seconds = FULL_COLLECTION_EVERY
        collection(collector, watch, seconds=0.0)
        assert gc.get_freeze_count() == 0
        collection(collector, watch, seconds=LONG)
        assert gc.get_freeze_count() > 0


def test_objects_that_replace_frozen_ones_are_collected() -> None:
    with GcTuning():
        collector, pods = CollectorBySize(), [[n] for n in range(100_000)]
        gc.freeze()
        for i in range(len(pods)):
            pods[i] = [i]  # one allocation and one deallocation: the collector's count stays
            if i % 10_000 == 0:
                collector.collect()
        assert max(len(gc.get_objects(generation)) for generation in range(3)) < 40_000


def test_few_objects_trigger_no_collection() -> None:
    with collection_paused():
        gc.collect()
        gc.freeze()
        collector = CollectorBySize()
        collector.collect()
        collections = sum(each["collections"] for each in gc.get_stats())
        collector.collect()
        assert sum(each["collections"] for each in gc.get_stats()) == collections
        gc.unfreeze()
