"""Tasks whose pods a quota of the namespace rejects, in the order in which they are created again."""

from __future__ import annotations

from itertools import count

from sortedcontainers import SortedDict

from pyscheduler.backend.task import TaskSpec


class QuotaWaiters:
    """Waiting tasks: higher priority first, then in order of their first rejection."""

    def __init__(self) -> None:
        self._numbers = count()
        self._keys: dict[str, tuple[int, int]] = {}
        self._specs: SortedDict = SortedDict()

    @property
    def first(self) -> str:
        """Id of the task that is created first once there is room, "" if none waits."""
        return str(self._specs.peekitem(0)[1].id) if self._specs else ""

    def add(self, spec: TaskSpec) -> None:
        """Add a task, unless it waits already."""
        if spec.id not in self._keys:
            key = self._keys[spec.id] = (-spec.priority, next(self._numbers))
            self._specs[key] = spec

    def discard(self, task: str) -> bool:
        """Remove a task; return False if it does not wait."""
        key = self._keys.pop(task, None)
        if key is not None:
            del self._specs[key]
        return key is not None

    def may_try(self, task: str) -> bool:
        """Return True if a create of the task may take room now: no earlier waiting task would fit into the same."""
        key = self._keys.get(task)
        if key is None or key == self._specs.peekitem(0)[0]:
            return True
        first: TaskSpec = self._specs.peekitem(0)[1]
        requests = self._specs[key].requests()
        return any(amount > requests.amounts.get(name, 0) for name, amount in first.requests().amounts.items())
