"""Binding cycles with slow plugins: detached from workers, cancelled, and their outcome resolved."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pyscheduler.api import ApiError, ApiWriter, BindPlugin, Cycle, Pod, PostBindPlugin, PreBindPlugin
from pyscheduler.core.commands import Bind, BindingPlan, EventType, Evict, Record
from pyscheduler.core.events import BindFailed, Bound, Event, Tick
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.shell.binding import bindings as bindings_module
from pyscheduler.shell.binding import cancellation
from pyscheduler.shell.binding.bindings import LONG, BindingPorts, Bindings
from pyscheduler.shell.binding.concurrency import MANY, MOST, SMALL, SMALL_QUEUE, ConcurrencyLimit, InFlightCounter
from pyscheduler.shell.instrument import MetricsInstrument
from pyscheduler.shell.metrics import Metrics
from pyscheduler.testing import pod
from tests.unit.kube.virtual import VirtualClock

WORKERS = 4


@dataclass
class BindingServer:
    """Fake API server that answers bindings when `answers` is set, and stores the pods' nodes."""

    where: dict[str, str] = field(default_factory=dict)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    refusals: list[ApiError] = field(default_factory=list)
    reads: int = 0
    interrupted: int = 0

    async def bind(self, pod: Pod, node_name: str) -> None:
        try:
            await asyncio.sleep(0)
            await self.answers.wait()
        except asyncio.CancelledError:
            self.interrupted += 1
            raise
        if pod.name == "deleted":
            raise ApiError(404, "NotFound", "no such pod")
        self.where[pod.uid] = node_name
        if pod.name == "no-answer":
            raise ApiError(0, "Timeout", "no answer in time")

    async def get(self, path: str) -> dict[str, Any]:
        self.reads += 1
        if self.refusals:
            raise self.refusals.pop()
        name = path.rpartition("/")[2]
        return {"metadata": {"uid": name}, "spec": {"nodeName": self.where.get(name, "")}}

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class Acts(PreBindPlugin, BindPlugin, PostBindPlugin):
    """Hangs at the extension point in the pod's `at` label, in the way of its `how` label."""

    name = "Acts"

    def __init__(self) -> None:
        super().__init__(None, empty_handle())
        self.obeys_cancellation = False
        """True makes plugins with how="ignores cancellation" stop, so that the test can end."""
        self.late: list[Exception] = []

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await self._act("PreBind", pod, node_name, api)

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        if pod.labels.get("at") != "Bind" or pod.labels["how"] == "binds, then hangs":
            await api.bind(pod, node_name)
        await self._act("Bind", pod, node_name, api)

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await self._act("PostBind", pod, node_name, api)

    async def _act(self, at: str, pod: Pod, node_name: str, api: ApiWriter) -> None:
        if pod.labels.get("at") != at:
            return
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if pod.labels["how"] == "returns when cancelled":
                    return
                if pod.labels["how"] != "ignores cancellation" or self.obeys_cancellation:
                    raise
                try:
                    await api.bind(pod, node_name)
                except Exception as problem:
                    self.late.append(problem)


class StatusWritesInFlight:
    """Status writes that end when their events are set."""

    def __init__(self) -> None:
        self.written: dict[str, asyncio.Event] = {}

    @property
    def pods(self) -> Set[str]:
        return self.written.keys()

    def withdraw(self, uid: str) -> asyncio.Event | None:
        return self.written.pop(uid)


@dataclass
class BindingFixture:
    """Bindings with a fake server, a manual clock, and the emitted events."""

    server: BindingServer = field(default_factory=BindingServer)
    clock: VirtualClock = field(default_factory=VirtualClock)
    metrics: Metrics = field(default_factory=Metrics)
    emitted: list[Event] = field(default_factory=list)
    recorded: list[Record] = field(default_factory=list)
    in_flight: InFlightCounter = field(default_factory=InFlightCounter)
    acts: Acts = field(default_factory=Acts)
    statuses: StatusWritesInFlight = field(default_factory=lambda: StatusWritesInFlight())

    def begin(self, name: str, at: str = "", how: str = "hangs") -> None:
        subject = pod(name).label("at", at).label("how", how).build()
        acting = (self.acts,)
        plan = BindingPlan(acting if at == "PreBind" else (), acting, acting if at == "PostBind" else ())
        self.bindings.begin(Bind(subject, "n1", Cycle(0.0, "mine", subject.uid), plan))

    @property
    def is_full(self) -> bool:
        return self.bindings.is_full(waiting=1, nodes=SMALL)

    @property
    def outcomes(self) -> dict[str, Bound | BindFailed]:
        return {event.uid: event for event in self.emitted if isinstance(event, Bound | BindFailed)}

    @property
    def bindings(self) -> Bindings:
        assert self._bindings is not None
        return self._bindings

    _bindings: Bindings | None = None

    async def after(self, seconds: float) -> None:
        """Advance the clock and check the binding cycles."""
        self.clock.at += seconds
        self.bindings.check_cycles()
        await settle()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give plugins only 10 ms to stop."""
    monkeypatch.setattr(cancellation, "PATIENCE", 0.01)


@asynccontextmanager
async def running_bindings(most: int = WORKERS) -> AsyncIterator[BindingFixture]:
    made = BindingFixture()
    made.server.answers.set()
    api, limit = cast(ApiWriter, made.server), ConcurrencyLimit(most)
    instrument = MetricsInstrument(made.metrics, made.clock.now)
    ports = BindingPorts(made.emitted.append, made.recorded.append, made.statuses, instrument)
    bindings = made._bindings = Bindings(api, made.in_flight, made.clock, limit, ports)
    work = asyncio.create_task(bindings.run())
    try:
        yield made
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def until(true: Callable[[], bool]) -> None:
    for _ in range(5000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the condition never became true")


async def test_members_of_a_group_are_bound_within_the_concurrency_limit() -> None:
    async with running_bindings(MOST) as fixture:
        fixture.server.answers.clear()
        for i in range(MOST):
            fixture.begin(f"member{i}")
        await settle()
        assert fixture.in_flight.bindings == SMALL_QUEUE
        fixture.server.answers.set()
        await until(lambda: len(fixture.outcomes) == MOST)

    assert len(fixture.server.where) == MOST


async def test_queued_bindings_start_as_the_concurrency_limit_grows() -> None:
    in_flight: list[int] = []
    async with running_bindings(MOST) as fixture:
        for i in range(MOST):
            fixture.begin(f"member{i}")
        while len(fixture.outcomes) < MOST:  # each at base latency: the server could take more
            await asyncio.sleep(0)
            in_flight.append(fixture.in_flight.bindings)

    assert max(in_flight) > SMALL_QUEUE


@pytest.mark.parametrize("at", ["Bind", "PostBind"])
async def test_pods_of_a_hanging_plugin_do_not_occupy_workers(at: str) -> None:
    async with running_bindings() as fixture:
        for i in range(3 * WORKERS):
            fixture.begin(f"hung{i}", at)
        fixture.begin("fine")
        await settle()
        was_full = fixture.is_full
        assert "fine" not in fixture.outcomes
        for _ in range(3):
            await fixture.after(LONG + 0.1)
        assert (was_full, fixture.is_full) == (True, False)
        assert isinstance(fixture.outcomes["fine"], Bound)
        assert fixture.bindings.detached_by_plugin() == {("Acts", at): 3 * WORKERS}
        assert fixture.in_flight.bindings == 0  # so Events do not wait either
        assert any(isinstance(event, Tick) for event in fixture.emitted)


async def test_plugin_that_blocks_many_pods_is_detached_sooner() -> None:
    async with running_bindings() as fixture:
        for i in range(3 * WORKERS):
            fixture.begin(f"hung{i}", "Bind")
        await settle()
        await fixture.after(LONG + 0.1)
        await fixture.after(LONG / WORKERS)
        await fixture.after(LONG / WORKERS)
        assert fixture.bindings.detached_by_plugin() == {("Acts", "Bind"): 3 * WORKERS}


async def test_slow_server_does_not_detach_workers() -> None:
    """Otherwise decisions would use an old cluster state, and connections would pile up."""
    async with running_bindings() as fixture:
        fixture.server.answers.clear()
        for i in range(WORKERS):
            fixture.begin(f"p{i}")
        await settle()
        await fixture.after(80.0)
        assert (fixture.is_full, fixture.bindings.detached_by_plugin()) == (True, {})


async def test_binding_that_waits_for_a_status_write_is_not_detached() -> None:
    """The server is slow then, not a plugin."""
    async with running_bindings() as fixture:
        written = asyncio.Event()
        fixture.statuses.written = {pod(f"p{i}").build().uid: written for i in range(WORKERS)}
        for i in range(WORKERS):
            fixture.begin(f"p{i}")
        await settle()
        await fixture.after(80.0)
        assert (fixture.is_full, fixture.bindings.detached_by_plugin(), fixture.server.where) == (True, {}, {})
        written.set()
        await settle()
    assert len(fixture.server.where) == WORKERS


async def test_slow_plugin_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with running_bindings() as fixture:
        fixture.begin("first", "Bind")
        await settle()
        fixture.clock.at += 1.0
        for i in range(2):
            fixture.begin(f"hung{i}", "Bind")
        await settle()
        await fixture.after(LONG + 0.1)
        await fixture.after(LONG + 0.1)
    (line,) = [record for record in caplog.records if "is slow" in record.message]
    assert vars(line)["fields"] == {
        "plugin": "Acts", "point": "Bind", "pod": "default/first", "node": "n1", "seconds": 6.1, "pods": 3
    }  # fmt: skip


@pytest.mark.parametrize("at", ["PreBind", "Bind", "PostBind"])
@pytest.mark.parametrize("begun", [True, False])
async def test_binding_cycle_of_a_deleted_pod_is_cancelled_without_an_event(at: str, begun: bool) -> None:
    async with running_bindings() as fixture:
        fixture.begin("gone", at)
        if begun:
            await settle()
        fixture.bindings.cancel("gone")
        await until(lambda: fixture.bindings.unfinished == 0)
        await settle()
        assert (fixture.emitted, fixture.bindings.detached_by_plugin(), fixture.in_flight.bindings) == ([], {}, 0)
        assert not fixture.is_full


@pytest.mark.parametrize(("begun", "is_full"), [(60, True), (20, False)])
async def test_small_burst_after_a_long_one_has_the_short_queue(begun: int, is_full: bool) -> None:
    """The scheduling loop reads the limit before each attempt, so never while no pod waits."""
    async with running_bindings(MOST) as fixture:
        for i in range(100):
            fixture.begin(f"p{i}")
            await settle()
        for waiting in (MANY, 1):
            fixture.bindings.is_full(waiting, nodes=SMALL)
        fixture.server.answers.clear()
        for i in range(begun):
            fixture.begin(f"later{i}")
        await settle()
        assert fixture.bindings.is_full(waiting=60, nodes=SMALL) is is_full
        fixture.server.answers.set()


async def test_long_burst_keeps_its_queue_while_few_bindings_wait_for_workers() -> None:
    async with running_bindings(MOST) as fixture:
        for i in range(100):
            fixture.begin(f"p{i}")
            await settle()
        fixture.bindings.is_full(MANY, nodes=SMALL)
        fixture.server.answers.clear()
        for i in range(60):
            fixture.begin(f"later{i}")
        await settle()
        assert not fixture.bindings.is_full(waiting=500, nodes=SMALL)
        fixture.server.answers.set()


async def test_deleted_pod_leaves_the_queue() -> None:
    async with running_bindings() as fixture:
        fixture.server.answers.clear()
        for i in range(WORKERS):
            fixture.begin(f"p{i}")
        fixture.begin("waits")
        await settle()
        fixture.bindings.cancel("waits")
        fixture.server.answers.set()
        await until(lambda: fixture.bindings.unfinished == 0)
        assert sorted(fixture.outcomes) == [f"p{i}" for i in range(WORKERS)]


async def test_call_for_a_deleted_pod_is_not_interrupted() -> None:
    """Its connection would have to be reopened; the response, a 404, comes soon anyway."""
    async with running_bindings() as fixture:
        fixture.server.answers.clear()
        fixture.begin("deleted")
        await settle()
        fixture.bindings.cancel("deleted")
        await settle()
        assert (fixture.server.interrupted, fixture.bindings.unfinished) == (0, 1)
        fixture.server.answers.set()
        await until(lambda: fixture.bindings.unfinished == 0)
        assert (fixture.server.interrupted, fixture.emitted) == (0, [])


async def test_binding_cycle_fails_after_the_timeout() -> None:
    async with running_bindings() as fixture:
        fixture.bindings.timeout = 60.0
        for at in ("PreBind", "Bind"):
            fixture.begin(at.lower(), at)
        await settle()
        await fixture.after(61.0)
        await until(lambda: fixture.bindings.unfinished == 0)
        assert {uid: getattr(event, "message", "") for uid, event in fixture.outcomes.items()} == {
            "prebind": 'running PreBind plugin "Acts": no end after 60s',
            "bind": 'running Bind plugin "Acts": no end after 60s',
        }
        assert dict(fixture.metrics.called_off.counts) == {("Acts", at, "timeout"): 1 for at in ("PreBind", "Bind")}


@pytest.mark.parametrize("how", ["hangs", "returns when cancelled"])
async def test_outcome_of_a_cancelled_binding_is_read_from_the_server(how: str) -> None:
    async with running_bindings() as fixture:
        fixture.bindings.timeout = 60.0
        fixture.server.refusals = [ApiError(0, "Unreachable", "connection refused"), ApiError(500, "", "etcd is away")]
        for name in ("bound", "not-bound"):
            fixture.begin(name, "Bind", how)
        fixture.server.where["bound"] = "n1"  # bound by another program for the plugin
        await settle()
        await fixture.after(61.0)
        await until(lambda: fixture.bindings.unfinished == 0)
        assert {uid: type(event) for uid, event in fixture.outcomes.items()} == {
            "bound": Bound,
            "not-bound": BindFailed,
        }


async def test_bound_pod_is_not_looked_up_after_cancellation() -> None:
    async with running_bindings() as fixture:
        fixture.bindings.timeout = 60.0
        fixture.begin("bound", "Bind", "binds, then hangs")
        await settle()
        await fixture.after(61.0)
        await until(lambda: fixture.bindings.unfinished == 0)
        assert (type(fixture.outcomes["bound"]), fixture.server.reads) == (Bound, 0)


async def test_sent_binding_is_not_interrupted() -> None:
    async with running_bindings() as fixture:
        fixture.bindings.timeout = 60.0
        fixture.server.answers.clear()
        fixture.begin("sent", "Bind", "binds, then hangs")
        await settle()
        await fixture.after(61.0)
        assert fixture.emitted == []
        fixture.server.answers.set()
        await settle()
        await fixture.after(1.0)
        await until(lambda: fixture.bindings.unfinished == 0)
        assert isinstance(fixture.outcomes["sent"], Bound)


@pytest.mark.parametrize("name", ["no-answer", "deleted"])
async def test_pod_is_looked_up_when_its_binding_has_no_response(name: str) -> None:
    async with running_bindings() as fixture:
        fixture.begin(name)
        await until(lambda: fixture.bindings.unfinished == 0)
        assert (type(fixture.outcomes[name]), fixture.server.reads) == {
            "no-answer": (Bound, 1),
            "deleted": (BindFailed, 0),
        }[name]


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("at", ["PreBind", "Bind"])
async def test_plugin_that_ignores_cancellation_is_reported_and_its_calls_are_rejected(
    at: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_bindings() as fixture:
        fixture.bindings.timeout = 60.0
        fixture.begin("stuck", at, "ignores cancellation")
        await settle()
        await fixture.after(61.0)
        await until(lambda: fixture.bindings.unfinished == 0)
        assert isinstance(fixture.outcomes["stuck"], BindFailed)
        assert [str(problem) for problem in fixture.acts.late] == ["the binding cycle was cancelled"]
        assert fixture.server.where == {}
        assert dict(fixture.metrics.plugin_failures.counts) == {("Acts", at): 1}
        assert "default/stuck" in str(vars(caplog.records[-1])["fields"])
        assert fixture.bindings.detached_by_plugin() == {}
        for i in range(WORKERS):
            fixture.begin(f"next{i}")
        await until(lambda: fixture.bindings.unfinished == 0)
        fixture.acts.obeys_cancellation = True


async def test_victim_in_pre_bind_that_is_preempted_twice_is_cancelled_once() -> None:
    async with running_bindings() as fixture:
        fixture.begin("victim", "PreBind")
        note = Record(EventType.NORMAL, "Preempted", "Preempting", "by another", pod("victim").build())
        evict = Evict(pod("victim").build(), pod("high").build(), "", note, "DefaultPreemption")
        assert fixture.bindings.preempt(evict)
        assert fixture.bindings.preempt(evict)
        await until(lambda: fixture.bindings.unfinished == 0)
        await settle()
        assert [record.note for record in fixture.recorded] == ["by another (in kube-scheduler memory)."]
        assert not fixture.bindings.preempt(evict)


@pytest.mark.parametrize("at", ["PreBind", "Bind"])
def test_plugin_that_ignores_cancellation_does_not_keep_the_process_alive(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bindings_module, "STOPPING", 0.01)

    async def run() -> None:
        async with running_bindings() as fixture:
            fixture.begin("stuck", at, "ignores cancellation")
            await settle()

    asyncio.run(run())
    gc.collect()  # asyncio warns about the forgotten task fixture, not in another test
