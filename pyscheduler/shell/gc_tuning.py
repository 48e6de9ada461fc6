"""Tune the garbage collector so that it rarely traverses long-lived objects.

Reference counts free nearly everything here; collections are for the few cycles. A full collection takes 0.3 s with
150,000 pods and blocks scheduling. So none runs during imports and the first listing of a cluster, where nearly all
new objects are long-lived, and the objects that survive a long collection are frozen (gc.freeze). They are collected
once an hour, unless there are so many that scheduling would be blocked for long. Full collections are frequent enough
to find few new objects.

The collector counts allocations minus deallocations. If new objects replace as many frozen ones, as when 100,000 pods
move between queues, it counts none, and the next collection traverses all of them in a pause of 300 ms. So the
scheduling loop collects by the number of existing objects.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

LONG: Final = 0.01
"""Seconds of a full collection after which the surviving objects are frozen."""
FULL_COLLECTION_EVERY: Final = 3600.0
"""Seconds between two collections of the frozen objects."""
MAX_COLLECTED_FROZEN: Final = 500_000
"""Frozen objects up to which they are collected, at about 0.1 µs each."""
_IMPORTS: Final = 200_000
"""Objects: more than the imports of all modules create."""
_THRESHOLDS: Final = (5_000, 5, 5)
_FULL: Final = 2
_MAX_OBJECTS: Final = (5_000, 20_000, 20_000)
"""Objects by generation, traversed at about 0.3 µs each."""
_YOUNGEST_EVERY: Final = 4
"""Looks at the sizes for one count of the youngest generation."""


def defer_first_collection() -> None:
    """Run no collection before there are more objects than the imports create."""
    gc.set_threshold(_IMPORTS, *_THRESHOLDS[1:])


class CollectorBySize:
    """Collects the oldest generation that holds too many objects, and the younger ones.

    Counting the objects of a generation takes 20 to 130 ns for each of them, by the processor's cache. So the oldest is
    counted only after a collection of the middle one, without which it cannot have grown, and the youngest, which is
    small unless the collector does not count its objects, every few looks.
    """

    def __init__(self) -> None:
        self._looks = 0
        self._collections = 0
        """Collections of the middle generation at the last look."""

    def collect(self) -> None:
        """Run a collection if a generation holds too many objects; call it after each burst of scheduling."""
        self._looks += 1
        collections = gc.get_stats()[1]["collections"]
        if collections != self._collections and _is_too_large(_FULL):
            gc.collect(_FULL)
        elif self._looks % _YOUNGEST_EVERY == 0 and _is_too_large(0):
            gc.collect(1 if _is_too_large(1) else 0)
        self._collections = collections


def _is_too_large(generation: int) -> bool:
    return len(gc.get_objects(generation)) > _MAX_OBJECTS[generation]


@contextmanager
def collection_paused() -> Iterator[None]:
    """Disable collections inside the block; nested blocks end with the outermost."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class GcTuning:
    """Keep collections rare and freeze long-lived objects inside the `with` block. One per process."""

    def __init__(self, now: Callable[[], float] = time.perf_counter, max_frozen: int = MAX_COLLECTED_FROZEN) -> None:
        """`now` returns seconds. At most `max_frozen` frozen objects are collected again."""
        self._max_frozen = max_frozen
        self._now = now
        self._began = self._last_full = now()
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> Self:
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*_THRESHOLDS)
        gc.freeze()
        gc.callbacks.append(self.on_collection)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self.on_collection)
        gc.unfreeze()
        gc.set_threshold(*self._thresholds)

    def on_collection(self, phase: str, info: dict[str, Any]) -> None:
        """Handle the `start` and the `stop` of a collection; called by the collector."""
        if info["generation"] != _FULL:
            return
        now = self._now()
        if phase == "start":
            self._began = now
            return
        if now - self._began >= LONG or len(gc.get_objects(_FULL)) > _MAX_OBJECTS[_FULL]:
            gc.freeze()
        if now - self._last_full >= FULL_COLLECTION_EVERY:
            self._last_full = now
            if gc.get_freeze_count() <= self._max_frozen:
                gc.unfreeze()  # the next full collection traverses all
