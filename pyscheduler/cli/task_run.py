"""`tasks run`: the backend as a process that executes the requests in the state file's queue.

A request is removed once it was executed. Submitted tasks wait in the queue until the offer has room, so any number
can be queued; kill and forget requests do not wait behind them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from prometheus_client import start_http_server
from rich.console import Console

from pyscheduler.api.quantity import QuantityError
from pyscheduler.backend.backend import KubernetesTaskBackend
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.errors import BackendProblem, BackendStopped, UnknownTask
from pyscheduler.backend.offers import FixedBudget, NamespaceQuota, Offer
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state.request_queue import Adopt, Forget, Kill, QueuedRequest, Request, RequestQueue, Submit
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import TaskPhase, TaskProblem, TaskRecord, TaskSpec
from pyscheduler.cli import task_view
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.stop_signals import until_signalled
from pyscheduler.cli.task_logs import log_store, source_of
from pyscheduler.cli.task_view import TaskRow
from pyscheduler.kube.credentials import files_of_environment

T = TypeVar("T")
_POLL_SECONDS: Final = 0.1
"""Interval between two reads of the queue in seconds."""
_ID_IN_USE: Final = "a different task with this id is already queued"
_NOT_DONE: Final[dict[type[Request], str]] = {Adopt: "not adopted", Forget: "not forgotten", Kill: "not killed"}
_BATCH: Final = 200
"""Most kill and forget requests executed at the same time."""
_REPORT_SECONDS: Final = 1.0
"""Interval between two reports of progress and offer in seconds."""


class RunOptions(NamedTuple):
    """Options of `tasks run`."""

    state: Path
    kubeconfig: Path | None
    namespace: str
    name: str
    scheduler: str
    budget: dict[str, str]
    quota: bool
    qps: float
    finalizer: bool
    ttl_seconds: float | None
    once: bool
    output: str
    context: str = ""
    metrics_port: int | None = None
    keep_failed_seconds: float = 0.0
    logs: str = ""


async def work(flags: RunOptions) -> int:
    """Run the backend until a signal, with `once` until all tasks have ended; return the exit code."""
    fixed = _fixed_budget(flags)
    _check_kubeconfig(flags.kubeconfig)
    async with AsyncExitStack() as stack:
        burst = max(1, round(2 * flags.qps))
        client = await stack.enter_async_context(
            KubernetesClient(
                flags.namespace, kubeconfig=flags.kubeconfig, context=flags.context, qps=flags.qps, burst=burst
            )
        )
        budget = fixed or NamespaceQuota(client, optional=not flags.quota)
        settings = BackendSettings(
            name=flags.name,
            scheduler=flags.scheduler,
            finalizer=flags.finalizer,
            keep_failed_seconds=flags.keep_failed_seconds,
            ttl_seconds_after_finished=flags.ttl_seconds,
        )
        reporter = UpdateReporter(flags.output)
        backend = KubernetesTaskBackend(
            client, SqliteState(flags.state), budget, settings=settings, on_update=reporter.update
        )
        if flags.logs:
            backend.add_log_store(log_store(flags.logs))
        await _start(backend, client.lister_watcher.server, stack, reporter)
        if flags.metrics_port is not None:
            stack.enter_context(_metrics_server(flags.metrics_port, backend))
        queue = stack.enter_context(RequestQueue(flags.state))
        queue.set_meta("source", source_of(flags))
        worker = RequestWorker(queue, backend, reporter)
        return await until_signalled(partial(worker.run, flags.once)) or 0


class _Starting(Protocol):
    """Backend that is being started; its start waits while the API server is away."""

    @property
    def problem(self) -> str: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(self, *_: object) -> None: ...


async def _start(backend: _Starting, server: str, stack: AsyncExitStack, reporter: UpdateReporter) -> None:
    """Start the backend, and show meanwhile what it waits for."""

    async def show_problem() -> None:
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            if backend.problem:
                reporter.show_progress(f"Waiting for the start (API server {server}): {backend.problem}")

    showing = asyncio.ensure_future(show_problem())
    try:
        await stack.enter_async_context(backend)
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


@contextmanager
def _metrics_server(port: int, backend: KubernetesTaskBackend) -> Iterator[None]:
    """Serve the metrics. CommandProblem if the port is in use."""
    try:
        server, thread = start_http_server(port, registry=backend.metrics.registry)
    except OSError as problem:
        raise CommandProblem(f"--metrics-port {port}: {problem.strerror}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _fixed_budget(flags: RunOptions) -> FixedBudget | None:
    if flags.budget and flags.quota:
        raise CommandProblem("--budget and --quota exclude each other: use one of them")
    try:
        return FixedBudget(Resources.of(flags.budget)) if flags.budget else None
    except QuantityError as problem:
        raise CommandProblem(f"--budget: {problem}") from None


def _check_kubeconfig(file: Path | None) -> None:
    """Raise CommandProblem if the file is missing, or if there is none outside of a cluster."""
    if file is None and not files_of_environment() and "KUBERNETES_SERVICE_HOST" not in os.environ:
        hint = "pass --kubeconfig FILE or set KUBECONFIG"
        raise CommandProblem(f"no kubeconfig was given and this is not a pod of a cluster: {hint}")
    if file is not None and not file.exists():
        raise CommandProblem(f"--kubeconfig {file} does not exist; `pyscheduler up --kubeconfig-out {file}` writes one")


class UpdateReporter:
    """Prints changes of tasks and the progress, as text or JSON."""

    def __init__(self, output: str) -> None:
        self.json = output == "json"
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("Starting") if self._console.is_terminal and not self.json else None
        self._last = ""
        self._writing = threading.Lock()

    def update(self, record: TaskRecord) -> None:
        """Print the record; called in several threads at a time."""
        if self.json:
            line = task_view.as_json(task_view.row_of(record))
        elif record.final:
            line = f"{record.id} {record.phase}" + (f": {record.message}" if record.phase == TaskPhase.FAILED else "")
        else:
            return
        self._print(line)

    def reject(self, request: Request, why: str) -> None:
        """Print a request that was rejected, with the reason."""
        if isinstance(request, Submit):
            row = TaskRow(request.spec.id, task_view.REFUSED, request.spec, why=why)
            self._print(task_view.as_json(row) if self.json else f"{row.id} {row.phase}: {why}")
        else:
            subject = f"pod {request.pod}" if isinstance(request, Adopt) else f"task {request.id!r}"
            self._console.print(f"{subject} {_NOT_DONE[type(request)]}: {why}", soft_wrap=True, markup=False)

    def _print(self, line: str) -> None:
        with self._writing:
            print(line, flush=True)

    def show_progress(self, text: str) -> None:
        """Show the progress as a status line on a terminal, elsewhere as a new line if it has changed."""
        if self._status is not None:
            self._status.start()
            self._status.update(text)
        elif text != self._last:
            self._console.print(text, soft_wrap=True)
        self._last = text

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


class RequestWorker:
    """Executes the queued requests."""

    def __init__(self, queue: RequestQueue, backend: KubernetesTaskBackend, reporter: UpdateReporter) -> None:
        self._queue, self._backend, self._reporter = queue, backend, reporter
        self._queue_lock = asyncio.Lock()
        self._submits: dict[str, QueuedRequest] = {}
        """Submit requests by task id, until their tasks are durable."""
        self._submitted: list[tuple[QueuedRequest, asyncio.Future[None]]] = []
        """Those whose future is done."""
        self._others: list[QueuedRequest] = []
        self._last_read = 0
        """Number of the last request that was read."""
        self._all_executed = True
        """False once a request was rejected."""

    async def run(self, once: bool) -> int:
        """Run until cancelled, with `once` until all tasks have ended; return 0 if all succeeded, else 1."""
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
        records = self._backend.tasks().values()
        rejected = [
            queued for queued in await self._with_queue(self._queue.rejected) if isinstance(queued.request, Submit)
        ]
        self._reporter.show_progress(_progress(records, 0, len(rejected)))
        all_succeeded = all(record.phase is TaskPhase.SUCCEEDED for record in records)
        return 0 if all_succeeded and self._all_executed and not rejected else 1

    async def _poll(self) -> None:
        while True:
            await self._read_new_requests()
            await asyncio.sleep(_POLL_SECONDS)

    async def _read_new_requests(self) -> None:
        """Read new requests. A task that is killed before its submission is never submitted."""
        rejected: dict[str, list[QueuedRequest]] = {}
        done: list[QueuedRequest] = []
        for queued in await self._with_queue(lambda: self._queue.pending(after=self._last_read)):
            self._last_read = queued.number
            request, id = queued.request, _id(queued)
            pending = self._submits.get(id)
            if isinstance(request, Submit) and pending is None:
                why = self._submit(queued, request.spec)
                if why:
                    rejected.setdefault(why, []).append(queued)
            elif isinstance(request, Submit) and pending is not None:
                is_duplicate = pending.request == request
                (done if is_duplicate else rejected.setdefault(_ID_IN_USE, [])).append(queued)
            elif isinstance(request, Adopt):
                self._others.append(queued)
            elif pending is not None and self._backend.withdraw(id):
                del self._submits[id]
                rejected.setdefault("killed before it was submitted", []).append(pending)
                done.append(queued)
            else:
                self._others.append(queued)
        for why, requests in rejected.items():
            await self._reject(requests, why)
        await self._done(done)

    def _submit(self, queued: QueuedRequest, spec: TaskSpec) -> str:
        """Queue the task in the backend; return the reason if it is rejected."""
        try:
            future = self._backend.submit_when_room(spec)
        except BackendStopped:
            raise
        except (BackendProblem, TaskProblem) as problem:
            return str(problem)
        self._submits[spec.id] = queued
        future.add_done_callback(lambda future: self._submitted.append((queued, future)))
        return ""

    async def _run_submits(self) -> None:
        """Remove the requests whose tasks are durable."""
        while True:
            submitted, self._submitted = self._submitted, []
            done = [queued for queued, future in submitted if not future.cancelled() and future.result() is None]
            await self._done(done)
            for queued in done:
                del self._submits[_id(queued)]
            await asyncio.sleep(_POLL_SECONDS)

    async def _run_others(self) -> None:
        """Execute kill, forget and adopt requests, once their tasks allow it."""
        while True:
            batch = [queued for queued in self._others if self._may_execute(queued)][:_BATCH]
            await asyncio.gather(*(self._execute_other(queued) for queued in batch))
            executed = {queued.number for queued in batch}
            self._others = [queued for queued in self._others if queued.number not in executed]
            if not batch:
                await asyncio.sleep(_POLL_SECONDS)

    def _may_execute(self, queued: QueuedRequest) -> bool:
        """Return False while the task is not durable yet, or is to be forgotten while its pods are being deleted."""
        if _id(queued) in self._submits:
            return False
        record = self._backend.tasks().get(_id(queued))
        return not isinstance(queued.request, Forget) or record is None or not record.final or record.settled

    async def _execute_other(self, queued: QueuedRequest) -> None:
        if isinstance(queued.request, Adopt):
            await self._execute_adopt(queued, queued.request)
            return
        method = self._backend.kill if isinstance(queued.request, Kill) else self._backend.forget
        await self._execute(queued, method(_id(queued)))

    async def _execute_adopt(self, queued: QueuedRequest, request: Adopt) -> None:
        """Adopt a pod, unless it was adopted before: by a repeated request, or by a process that was then killed."""
        record = self._backend.tasks().get(request.id)
        if record is not None and record.submission == request.submission != "":
            await self._done([queued])
        else:
            await self._execute(queued, self._backend.adopt(request.pod))

    async def _execute(self, queued: QueuedRequest, call: Coroutine[Any, Any, object]) -> None:
        """Await the call of a request and remove the request, or reject it with the error."""
        try:
            await call
        except BackendStopped:
            raise
        except UnknownTask:
            await self._done([queued])  # the task is gone already
        except (BackendProblem, TaskProblem) as problem:
            await self._reject([queued], str(problem))
        else:
            await self._done([queued])

    async def _reject(self, requests: Sequence[QueuedRequest], why: str) -> None:
        self._all_executed = False
        await self._with_queue(partial(self._queue.reject, [queued.number for queued in requests], why))
        for queued in requests:
            self._reporter.reject(queued.request, why)

    async def _done(self, requests: Sequence[QueuedRequest]) -> None:
        if requests:
            await self._with_queue(lambda: self._queue.done([queued.number for queued in requests]))

    async def _report(self) -> None:
        """Report the progress, and store the current offer for other processes."""
        stored = ""
        while True:
            records = self._backend.tasks().values()
            self._reporter.show_progress(_progress(records, len(self._submits)))
            offer = _offer(self._backend.allocated_resources(), self._backend.offer())
            if offer != stored:
                stored = offer
                await self._with_queue(partial(self._queue.set_meta, "offer", offer))
            await asyncio.sleep(_REPORT_SECONDS)

    async def _all_ended(self) -> None:
        while True:
            await self._read_new_requests()
            if not self._submits and not self._others:
                await self._backend.wait_until_settled()
                await self._read_new_requests()
                if not self._submits and not self._others:
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def _with_queue(self, call: Callable[[], T]) -> T:
        """Run a call of the queue in a thread: it waits while another process writes to the file."""
        async with self._queue_lock:
            return await asyncio.to_thread(call)


def _id(queued: QueuedRequest) -> str:
    return queued.request.spec.id if isinstance(queued.request, Submit) else queued.request.id


def _progress(records: Iterable[TaskRecord], waiting: int, rejected: int = 0) -> str:
    counts = Counter(record.phase for record in records)
    phases = [f"{counts[phase]} {phase.lower()}" for phase in TaskPhase if counts[phase]]
    phases += [f"{rejected} refused"] if rejected else []
    ended = sum(counts[phase] for phase in TaskPhase if phase.final)
    total, ended = counts.total() + waiting + rejected, ended + rejected
    return f"{ended} of {total} tasks have ended" + f" ({', '.join(phases)})" * bool(phases)


def _offer(allocated: Resources, offer: Offer) -> str:
    return f"allocated: {allocated}\nfree: {'unlimited' if offer.free is None else offer.free}"
