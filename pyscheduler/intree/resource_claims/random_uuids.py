"""UUIDs of claims that an attempt creates."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from pyscheduler.api import Cycle


def random_uuids(cycle: Cycle) -> Iterator[str]:
    """Yield random UUIDs that depend on the attempt only, so that a replayed attempt gets the same."""
    rng = cycle.rng()
    while True:
        yield str(UUID(int=rng.getrandbits(128), version=4))
