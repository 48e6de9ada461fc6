"""The garbage collector, kept from looking again and again at what is there to stay.

Reference counts free nearly everything here; collections are for the few cycles. A full one looks at every object that
can be part of one, which takes a third of a second with 150,000 pods, and nothing is scheduled meanwhile. So none runs
while modules are imported and while a cluster is first listed, where nearly everything is made to stay; and whatever
has lived through one that took long is left alone. Once an hour that is looked at too, unless there is so much of it
that nothing would be scheduled for long. Full collections come often enough to find little that is new.

The collector counts allocations less deallocations. Where new objects replace as many that it leaves alone, as when
100,000 pods change tiers, it counts none, and the next collection traverses them all in a pause of 300 ms. So the
scheduling loop collects by the number of objects that there are.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

LONG: Final = 0.01
"""Seconds from which on a full collection is too long to be repeated."""
FULL_COLLECTION_EVERY: Final = 3600.0
"""Seconds after which what was left alone is looked at once more."""
MOST_THOROUGH: Final = 500_000
"""Objects that are looked at then, at about 0.1 µs each."""
_IMPORTS: Final = 200_000
"""Objects: more than all modules together make."""
_THRESHOLDS: Final = (5_000, 5, 5)
_FULL: Final = 2
_MOST: Final = (5_000, 20_000, 20_000)
"""Objects by generation, traversed at about 0.3 µs each."""


def defer_first_collection() -> None:
    """No collections before so much is there that it cannot be modules alone."""
    gc.set_threshold(_IMPORTS, *_THRESHOLDS[1:])


def collect_by_size() -> None:
    """Collect the oldest generation that holds many objects, with those that are younger."""
    for generation in (_FULL, 1, 0):
        if len(gc.get_objects(generation)) > _MOST[generation]:
            gc.collect(generation)
            return


@contextmanager
def collection_paused() -> Iterator[None]:
    """No collections inside; nested ones count from the outermost."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class GcTuning:
    """While entered, collections are rare, and what they cannot free is not looked at again soon. For one process."""

    def __init__(self, now: Callable[[], float] = time.perf_counter, most_thorough: int = MOST_THOROUGH) -> None:
        """`now` is in seconds. No more than `most_thorough` objects are looked at once more."""
        self._most_thorough = most_thorough
        self._now = now
        self._began = self._thorough = now()
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
        """Called by the collector at the `start` and the `stop` of each collection."""
        if info["generation"] != _FULL:
            return
        now = self._now()
        if phase == "start":
            self._began = now
            return
        if now - self._began >= LONG or len(gc.get_objects(_FULL)) > _MOST[_FULL]:
            gc.freeze()
        if now - self._thorough >= FULL_COLLECTION_EVERY:
            self._thorough = now
            if gc.get_freeze_count() <= self._most_thorough:
                gc.unfreeze()  # and the next full collection sees it all
