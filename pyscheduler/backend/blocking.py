"""Task backend for code without asyncio: the same methods, guarantees and exceptions, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, TypeVar

from pyscheduler.backend.backend import KubernetesTaskBackend
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.errors import BackendStopped
from pyscheduler.backend.offers import Budget, Offer
from pyscheduler.backend.state import StateStore
from pyscheduler.backend.task import TaskRecord, TaskSpec

T = TypeVar("T")


class BlockingTaskBackend:
    """`KubernetesTaskBackend` whose methods block. Use it in a `with` block; any thread may call it.

    It opens and closes `client`. `options` are those of `KubernetesTaskBackend`; `on_update` is called in threads. For
    several namespaces use one backend each.
    """

    def __init__(
        self, client: KubernetesClient, state: StateStore, budget: Budget | None = None, **options: Any
    ) -> None:
        self.backend = KubernetesTaskBackend(client, state, budget, **options)
        """The backend in the other thread; only its attributes `metrics` and `add_log_store` are for other threads."""
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run_loop, name="task backend", daemon=True)

    def __enter__(self) -> Self:
        """Start the backend. StateInUse, StateProblem, ApiError, ConnectionProblem."""
        self._thread.start()
        try:
            self._await(self._client.__aenter__)
            try:
                self._await(self.backend.__aenter__)
            except BaseException:
                self._await(self._client.__aexit__)
                raise
        except BaseException:
            self._stop_loop()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Stop the backend. Pods keep running; the next process manages them."""
        try:
            self._await(self.backend.__aexit__)
            self._await(self._client.__aexit__)
        finally:
            self._stop_loop()

    def submit(self, spec: TaskSpec) -> TaskRecord:
        """Submit the task, as `KubernetesTaskBackend.submit`."""
        return self._await(lambda: self.backend.submit(spec))

    def submit_all(self, specs: Iterable[TaskSpec]) -> list[TaskRecord]:
        """Submit all and return once the offer had room for each."""
        return self._await(lambda: self.backend.submit_all(specs))

    def submit_when_room(self, spec: TaskSpec) -> Future[None]:
        """Queue the task until the offer has room; return a future that is done once the task is durable."""

        async def durable() -> None:
            await self.backend.submit_when_room(spec)

        return asyncio.run_coroutine_threadsafe(durable(), self._loop)

    def update(self, spec: TaskSpec) -> TaskRecord:
        """Change the spec of a task that is not final."""
        return self._await(lambda: self.backend.update(spec))

    def kill(self, task: str) -> TaskRecord:
        """Request the end of the task."""
        return self._await(lambda: self.backend.kill(task))

    def forget(self, task: str) -> None:
        """Delete the record of a settled task."""
        self._await(lambda: self.backend.forget(task))

    def task(self, task: str) -> TaskRecord:
        """Return the durable record of a task. UnknownTask."""
        return self._read(lambda: self.backend.task(task))

    def tasks(self) -> Mapping[str, TaskRecord]:
        """Return a copy of all durable records, by task id."""
        return self._read(lambda: dict(self.backend.tasks()))

    def offer(self) -> Offer:
        """Return the resources that may be used now."""
        return self._read(self.backend.offer)

    @property
    def problem(self) -> str:
        """One line with all that fails now; "" if the backend is healthy."""
        return self._read(lambda: self.backend.problem)

    def updates(self) -> Generator[TaskRecord, None, None]:
        """Yield each changed record, as `KubernetesTaskBackend.updates`."""
        return self._iterate(self.backend.updates)

    def logs(self, task: str, container: str = "", **options: Any) -> Generator[bytes, None, None]:
        """Yield the log of the task's pod, with the options `tail` and `follow` of `KubernetesTaskBackend.logs`."""
        return self._iterate(lambda: self.backend.logs(task, container, **options))

    def wait_until_settled(self, timeout: float | None = None) -> None:
        """Wait until every task is final and all its pods are deleted. TimeoutError, BackendStopped."""

        async def wait() -> None:
            async with asyncio.timeout(timeout):
                await self.backend.wait_until_settled()

        self._await(wait)

    def _await(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await the result of `call` in the other thread; an interrupt of this thread cancels it. BackendStopped."""

        async def run() -> T:
            return await call()

        if self._loop.is_closed():
            raise BackendStopped("the backend is closed")
        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise BackendStopped("the backend was closed during the call") from None
        except BaseException:
            future.cancel()
            raise

    def _read(self, call: Callable[[], T]) -> T:
        async def read() -> T:
            return call()

        return self._await(read)

    def _iterate(self, begin: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        stream = self._read(begin)
        try:
            while True:
                try:
                    item = self._await(stream.__anext__)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if not self._loop.is_closed():
                self._await(stream.aclose)

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels the calls of other threads at the end
            runner.run(self._stop.wait())

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
