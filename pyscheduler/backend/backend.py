"""The task backend as its owner sees it."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Self

from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.offers import Budget, Offer
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateStore
from pyscheduler.backend.task import TaskRecord, TaskSpec

OnUpdate = Callable[[TaskRecord], Awaitable[None] | None]


class KubernetesTaskBackend:
    """Runs tasks as pods: submit, watch, account, clean. Use it as an async context manager.

    `client` (a `KubernetesClient`) is opened and closed by whoever made it. `budget` None means no limit. `on_update`
    is called with every record that changed, in the event loop, one at a time; where it raises, it is called again later.
    If it is not given, `updates()` tells the same.
    """

    def __init__(
        self,
        client: PodsApi,
        state: StateStore,
        budget: Budget | None = None,
        *,
        settings: BackendSettings | None = None,
        on_update: OnUpdate | None = None,
        clock: Callable[[], float] = time.time,
        chance: random.Random | None = None,
    ) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Take the state, go on where the last process stopped. StateHeld, StateProblem, ClusterProblem."""
        raise NotImplementedError

    async def __aexit__(self, *_: object) -> None:
        """Stop, and give the state back. Pods go on running; the next process takes them up."""
        raise NotImplementedError

    async def submit(self, spec: TaskSpec) -> TaskRecord:
        """Have the task run; returns its record once it is durable. The same spec again is harmless.

        TaskProblem if it cannot be run as written, TaskExists if the id stands for another spec, NoRoom if the offer is
        too small now; BackendStopped.
        """
        raise NotImplementedError

    async def submit_all(self, specs: Iterable[TaskSpec]) -> list[TaskRecord]:
        """Submit all, in order, each as soon as the offer has room. NoRoom only for one larger than the whole budget."""
        raise NotImplementedError

    async def update(self, spec: TaskSpec) -> TaskRecord:
        """Change a task that is not final. What the pod does not show (retry, times, owner) counts at once; the rest
        when its next attempt is made. UnknownTask, TaskFinal, TaskProblem, NoRoom."""
        raise NotImplementedError

    async def kill(self, task: str) -> TaskRecord:
        """Have the task ended; returns once that wish is durable. One that succeeds first has succeeded. UnknownTask."""
        raise NotImplementedError

    async def forget(self, task: str) -> None:
        """Drop a settled task's record; its id is free again. UnknownTask, TaskUnsettled."""
        raise NotImplementedError

    def task(self, task: str) -> TaskRecord:
        """The record of a task. UnknownTask."""
        raise NotImplementedError

    def tasks(self) -> Mapping[str, TaskRecord]:
        """All records by id, live."""
        raise NotImplementedError

    def updates(self) -> AsyncIterator[TaskRecord]:
        """Every change of a record, the latest if several came meanwhile. A final one counts as told when the next is
        asked for, and is told again after a restart until then: (id, version) names an update."""
        raise NotImplementedError

    def offer(self) -> Offer:
        """What may be used now."""
        raise NotImplementedError

    def offers(self) -> AsyncIterator[Offer]:
        """The offer as it is now, and again whenever resources have come back or the budget has grown."""
        raise NotImplementedError

    async def settled(self) -> None:
        """Wait until every task is final and none of its pods is left. BackendStopped if that will not be."""
        raise NotImplementedError
