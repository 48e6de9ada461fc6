"""Amounts that count toward quotas, and toward no share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from pyscheduler.api.resources import Amounts

_NONE: Mapping[str, int] = {}


class QuotaUsage:
    """Sums of such amounts for each queue and those above it. `path` returns the names of these queues."""

    def __init__(self, path: Callable[[str], Iterable[str]]) -> None:
        self._path = path
        self._amounts: dict[Hashable, tuple[str, Amounts]] = {}
        self._sums: dict[str, Amounts] = {}

    def set(self, key: Hashable, queue: str, amounts: Mapping[str, int]) -> None:
        """Set the amounts of a job, or of something else; {} for none."""
        before = self._amounts.pop(key, None)
        if before is not None:
            self._add(*before, -1)
        if amounts:
            self._amounts[key] = queue, dict(amounts)
            self._add(queue, amounts, 1)

    def set_queues(self) -> None:
        """Add up all amounts anew after queues have changed."""
        self._sums.clear()
        for queue, amounts in self._amounts.values():
            self._add(queue, amounts, 1)

    def of(self, queue: str) -> Mapping[str, int]:
        """Return the sums of the queue and all queues below it."""
        return self._sums.get(queue, _NONE)

    def _add(self, queue: str, amounts: Mapping[str, int], sign: int) -> None:
        for name in self._path(queue):
            sums = self._sums.setdefault(name, {})
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, 0) + sign * amount
