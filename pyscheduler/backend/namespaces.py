"""Tasks in several namespaces, or clusters: one backend for each, with one budget and one callback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Self

from pyscheduler.backend.backend import KubernetesTaskBackend
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.offers import Budget, SharedBudget
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateStore
from pyscheduler.backend.task import TaskRecord

OnNamespacedUpdate = Callable[[str, TaskRecord], Awaitable[None] | None]


class BackendPlace(NamedTuple):
    """Client of one namespace, and the state of the backend there."""

    client: PodsApi
    state: StateStore


class NamespacedTaskBackends:
    """Backends by name, usually that of their namespace. Use it as an async context manager.

    All have the same settings and share `budget`: resources that a task in one namespace uses are not offered in
    another. `on_update` receives the name and the record; without it, `backends[name].updates()` yields the records. If
    one backend cannot start, the others are stopped.
    """

    def __init__(
        self,
        places: Mapping[str, BackendPlace],
        budget: Budget | None = None,
        *,
        settings: BackendSettings | None = None,
        on_update: OnNamespacedUpdate | None = None,
    ) -> None:
        shared = SharedBudget(budget) if budget is not None else None
        self.backends: Mapping[str, KubernetesTaskBackend] = MappingProxyType(
            {
                name: KubernetesTaskBackend(
                    place.client,
                    place.state,
                    shared,
                    settings=settings,
                    on_update=partial(on_update, name) if on_update is not None else None,
                )
                for name, place in places.items()
            }
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start all backends. The errors are those of `KubernetesTaskBackend`."""
        async with AsyncExitStack() as stack:
            for backend in self.backends.values():
                await stack.enter_async_context(backend)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def __getitem__(self, name: str) -> KubernetesTaskBackend:
        return self.backends[name]

    @property
    def problem(self) -> str:
        """One line with all that fails now, by backend; "" if all are healthy."""
        problems = {name: backend.problem for name, backend in self.backends.items()}
        return "; ".join(f"{name}: {problem}" for name, problem in problems.items() if problem)

    async def wait_until_settled(self) -> None:
        """Wait until all tasks of all backends are final and their pods are deleted. BackendStopped."""
        await asyncio.gather(*(backend.wait_until_settled() for backend in self.backends.values()))
