"""`tasks run`: the backend as a process. It takes requests out of the state file's inbox and carries them out.

Requests leave the inbox once they have been carried out. Tasks wait there for the offer to have room, so that any
number may be left at once; to kill or forget others need not wait behind them.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from rich.console import Console

from pyscheduler.api.quantity import QuantityError
from pyscheduler.backend.backend import KubernetesTaskBackend
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.errors import BackendProblem, BackendStopped, UnknownTask
from pyscheduler.backend.offers import FixedBudget, NamespaceQuota, Offer
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state.request_queue import Kill, QueuedRequest, RequestQueue, Submit
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import TaskPhase, TaskProblem, TaskRecord
from pyscheduler.cli.problems import CommandProblem

T = TypeVar("T")
_POLL_SECONDS: Final = 0.1
"""Seconds between two looks whether something new is in the inbox."""
_BATCH: Final = 200
"""Tasks that are taken up at once; those beyond can be withdrawn while they wait."""
_REPORT_SECONDS: Final = 1.0
"""Seconds between two words on what is on offer, and on how things stand."""


class RunOptions(NamedTuple):
    """The options of one `run`."""

    state: Path
    kubeconfig: Path | None
    namespace: str
    name: str
    scheduler: str
    budget: dict[str, str]
    quota: bool
    qps: float
    once: bool
    output: str


async def work(flags: RunOptions) -> int:
    """Work the state until a signal, or until all has ended where that was wished; the exit code."""
    fixed = _fixed(flags)
    async with AsyncExitStack() as stack:
        burst = max(1, round(2 * flags.qps))
        client = await stack.enter_async_context(
            KubernetesClient(flags.namespace, kubeconfig=flags.kubeconfig, qps=flags.qps, burst=burst)
        )
        budget = NamespaceQuota(client) if flags.quota else fixed
        settings = BackendSettings(name=flags.name, scheduler=flags.scheduler)
        reporter = _Reporter(flags.output)
        backend = KubernetesTaskBackend(
            client, SqliteState(flags.state), budget, settings=settings, on_update=reporter.update
        )
        await stack.enter_async_context(backend)
        box = stack.enter_context(RequestQueue(flags.state))
        worker = _Worker(box, backend, reporter)
        return await _until_signalled(worker.run(flags.once))


def _fixed(flags: RunOptions) -> FixedBudget | None:
    if flags.budget and flags.quota:
        raise CommandProblem("--budget and --quota are two sources of one budget: give one of them")
    try:
        return FixedBudget(Resources.of(flags.budget)) if flags.budget else None
    except QuantityError as problem:
        raise CommandProblem(f"--budget: {problem}") from None


async def _until_signalled(work: Awaitable[int]) -> int:
    """What `work` comes to; 0 if a signal ends it before."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return 0


class _Reporter:
    """What people, or programs that read JSON, are told of each change."""

    def __init__(self, output: str) -> None:
        self.json = output == "json"
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("Starting") if self._console.is_terminal and not self.json else None
        self._last = ""

    def update(self, record: TaskRecord) -> None:
        if self.json:
            sys.stdout.write(msgspec.json.encode(record).decode() + "\n")
            sys.stdout.flush()
        elif record.final:
            words = f"{record.id} {record.phase}" + (f": {record.message}" if record.phase == TaskPhase.FAILED else "")
            print(words, flush=True)

    def show_progress(self, text: str) -> None:
        """How things stand."""
        if self._status is not None:
            self._status.start()
            self._status.update(text)
        elif text != self._last:
            self._console.print(text, soft_wrap=True)
        self._last = text

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()


class _Worker:
    """Carries out what is in the inbox."""

    def __init__(self, box: RequestQueue, backend: KubernetesTaskBackend, reporter: _Reporter) -> None:
        self._queue, self._backend, self._reporter = box, backend, reporter
        self._queue_lock = asyncio.Lock()
        self._submits: dict[str, QueuedRequest] = {}
        """Tasks that are to be submitted, by id, in order."""
        self._taken: set[str] = set()
        """Those of them that the backend has been given."""
        self._others: list[QueuedRequest] = []
        self._read = 0
        """The number of the last request that was read."""

    async def run(self, once: bool) -> int:
        """Until cancelled; where `once`, until all tasks have ended: 0 if all have succeeded, else 1."""
        jobs: list[Coroutine[Any, Any, None]] = [self._poll(), self._run_submits(), self._run_others(), self._report()]
        tasks = [asyncio.ensure_future(job) for job in jobs]
        if once:
            tasks.append(asyncio.ensure_future(self._all_ended()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._reporter.stop()
        refused = await self._with_queue(self._queue.rejected)
        well = all(record.phase is TaskPhase.SUCCEEDED for record in self._backend.tasks().values())
        return 0 if well and not refused else 1

    async def _poll(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> None:
        """Take in what has come since the last look. What is to be killed before it was submitted never is."""
        refused: dict[str, list[QueuedRequest]] = {}
        done: list[QueuedRequest] = []
        for one in await self._with_queue(lambda: self._queue.pending(after=self._read)):
            self._read = one.number
            request, id = one.request, _id(one)
            waits = self._submits.get(id)
            if isinstance(request, Submit) and waits is None:
                self._submits[id] = one
            elif isinstance(request, Submit) and waits is not None:
                same = waits.request == request
                (done if same else refused.setdefault("another of this id waits already", [])).append(one)
            elif waits is not None and id not in self._taken:
                refused.setdefault("killed before it was submitted", []).append(self._submits.pop(id))
                done.append(one)
            else:
                self._others.append(one)
        for why, requests in refused.items():
            await self._with_queue(partial(self._queue.reject, [one.number for one in requests], why))
        await self._done(done)

    async def _run_submits(self) -> None:
        while True:
            batch = dict(islice(self._submits.items(), _BATCH))
            if not batch:
                await asyncio.sleep(_POLL_SECONDS)
                continue
            self._taken = set(batch)
            await self._submit(list(batch.values()))
            for id in batch:
                del self._submits[id]
            self._taken = set()

    async def _submit(self, batch: Sequence[QueuedRequest]) -> None:
        specs = [w.request.spec for w in batch if isinstance(w.request, Submit)]
        try:
            await self._backend.submit_all(specs)
        except BackendStopped:
            raise
        except (BackendProblem, TaskProblem):
            for one, spec in zip(batch, specs, strict=True):  # which of them it was, and what of the others
                await self._execute(one, self._backend.submit_all([spec]))
        else:
            await self._done(batch)

    async def _run_others(self) -> None:
        """Kill and forget, but for tasks that are just being submitted: those a little later."""
        while True:
            now = [one for one in self._others if _id(one) not in self._taken][:_BATCH]
            await asyncio.gather(*(self._end(one) for one in now))
            ended = {one.number for one in now}
            self._others = [one for one in self._others if one.number not in ended]
            if not now:
                await asyncio.sleep(_POLL_SECONDS)

    async def _end(self, one: QueuedRequest) -> None:
        act = self._backend.kill if isinstance(one.request, Kill) else self._backend.forget
        await self._execute(one, act(_id(one)))

    async def _execute(self, one: QueuedRequest, act: Coroutine[Any, Any, object]) -> None:
        """Carry a request out; if that cannot be, note why."""
        try:
            await act
        except BackendStopped:
            raise
        except UnknownTask:
            await self._done([one])  # it is gone: nothing is left to be killed or forgotten
        except (BackendProblem, TaskProblem) as problem:
            await self._with_queue(partial(self._queue.reject, [one.number], str(problem)))
        else:
            await self._done([one])

    async def _done(self, requests: Sequence[QueuedRequest]) -> None:
        if requests:
            await self._with_queue(lambda: self._queue.done([one.number for one in requests]))

    async def _report(self) -> None:
        """Say how things stand, and note for others what is on offer."""
        noted = ""
        while True:
            records = self._backend.tasks().values()
            self._reporter.show_progress(_progress(records, len(self._submits)))
            offer = _offer(self._backend.allocated_resources(), self._backend.offer())
            if offer != noted:
                noted = offer
                await self._with_queue(partial(self._queue.set_meta, "offer", offer))
            await asyncio.sleep(_REPORT_SECONDS)

    async def _all_ended(self) -> None:
        while True:
            await self._look()
            if not self._submits and not self._others:
                await self._backend.wait_until_settled()
                await self._look()
                if not self._submits and not self._others:
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def _with_queue(self, look: Callable[[], T]) -> T:
        """Another process may be writing: the loop does not wait for it."""
        async with self._queue_lock:
            return await asyncio.to_thread(look)


def _id(one: QueuedRequest) -> str:
    return one.request.spec.id if isinstance(one.request, Submit) else one.request.id


def _progress(records: Iterable[TaskRecord], waiting: int) -> str:
    found = Counter(record.phase for record in records)
    told = [f"{found[phase]} {phase.lower()}" for phase in TaskPhase if found[phase]]
    ended = sum(found[phase] for phase in TaskPhase if phase.final)
    total = found.total() + waiting
    return f"{ended} of {total} tasks have ended" + f" ({', '.join(told)})" * bool(told)


def _offer(held: Resources, offer: Offer) -> str:
    return f"held: {held}\nfree: {'as much as one likes' if offer.free is None else offer.free}"
