"""Collections do not look again and again at what stays, and everything is as before when the scheduler has ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pyscheduler.shell.gc_tuning import (
    FULL_COLLECTION_EVERY,
    LONG,
    GcTuning,
    collect_by_size,
    collection_paused,
    defer_first_collection,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # another test may have left others
    yield
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.set_threshold(*thresholds)


class Watch:
    """A clock that is moved by hand."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def collection(collector: GcTuning, watch: Watch, *, seconds: float, generation: int = 2) -> None:
    """What the collector is told of one collection that takes so long."""
    collector.on_collection("start", {"generation": generation})
    watch.seconds += seconds
    collector.on_collection("stop", {"generation": generation})


def test_none_while_put_off() -> None:
    with collection_paused(), collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_they_come_back_after_a_failure() -> None:
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()


def test_what_is_there_at_the_start_is_left_alone() -> None:
    thresholds, kept = gc.get_threshold(), [[n] for n in range(1000)]
    with GcTuning():
        assert gc.get_freeze_count() >= len(kept)
        assert gc.get_threshold()[0] > thresholds[0]
    assert gc.get_threshold() == thresholds


def test_none_while_modules_are_imported() -> None:
    defer_first_collection()
    collections = gc.get_stats()[0]["collections"]
    kept = [[n] for n in range(100_000)]
    assert gc.get_stats()[0]["collections"] == collections
    assert kept


@pytest.mark.parametrize(
    ("seconds", "generation", "left_alone"),
    [
        pytest.param(LONG, 2, True, id="a long full one"),
        pytest.param(LONG / 2, 2, False, id="a short full one"),
        pytest.param(LONG, 1, False, id="a young one"),
    ],
)
def test_survivors_are_left_alone_after(seconds: float, generation: int, left_alone: bool) -> None:
    watch = Watch()
    with collection_paused(), GcTuning(watch) as collector:
        before, kept = gc.get_freeze_count(), [[n] for n in range(5000)]
        collection(collector, watch, seconds=seconds, generation=generation)
        assert (gc.get_freeze_count() - before >= len(kept)) is left_alone


def test_so_much_that_it_would_take_long_is_not_looked_at_again() -> None:
    watch = Watch()
    with collection_paused(), GcTuning(watch, most_thorough=1000) as collector:
        collection(collector, watch, seconds=LONG)
        watch.seconds = FULL_COLLECTION_EVERY
        collection(collector, watch, seconds=0.0)
        assert gc.get_freeze_count() > 1000


def test_once_an_hour_all_are_looked_at() -> None:
    watch = Watch()
    with collection_paused(), GcTuning(watch, most_thorough=10**9) as collector:
        collection(collector, watch, seconds=LONG)
        assert gc.get_freeze_count() > 0
        watch.seconds = FULL_COLLECTION_EVERY
        collection(collector, watch, seconds=0.0)
        assert gc.get_freeze_count() == 0
        collection(collector, watch, seconds=LONG)
        assert gc.get_freeze_count() > 0


def test_objects_that_replace_frozen_ones_are_collected_though_no_count_grows() -> None:
    with GcTuning():
        pods = [[n] for n in range(100_000)]
        gc.freeze()
        for i in range(len(pods)):
            pods[i] = [i]  # one more and one less: the collector counts none
            if i % 10_000 == 0:
                collect_by_size()
        assert max(len(gc.get_objects(generation)) for generation in range(3)) < 40_000


def test_few_objects_are_left_to_the_collector() -> None:
    with collection_paused():
        gc.collect()
        gc.freeze()
        collections = sum(each["collections"] for each in gc.get_stats())
        collect_by_size()
        assert sum(each["collections"] for each in gc.get_stats()) == collections
        gc.unfreeze()
