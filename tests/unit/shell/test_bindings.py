"""Plugins that never end: others wait for them no more, they are called off, and what they did is known in the end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pyscheduler.api import ApiError, ApiWriter, BindPlugin, Cycle, Pod, PostBindPlugin, PreBindPlugin
from pyscheduler.core.commands import Bind, BindingPlan, EventType, Evict, Record
from pyscheduler.core.events import BindFailed, Bound, Event, Tick
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.shell.binding import cancellation, worker_pool
from pyscheduler.shell.binding.bindings import LONG, Bindings
from pyscheduler.shell.binding.concurrency import SMALL, ConcurrencyLimit
from pyscheduler.shell.instrument import MetricsInstrument
from pyscheduler.shell.kube.in_flight import InFlightCounter
from pyscheduler.shell.metrics import Metrics
from pyscheduler.testing import pod

from .virtual import VirtualClock

WORKERS = 4


@dataclass
class BindingServer:
    """An API server that answers bindings when it is let, and knows where pods are."""

    where: dict[str, str] = field(default_factory=dict)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    refusals: list[ApiError] = field(default_factory=list)
    looks: int = 0
    cut_off: int = 0

    async def bind(self, pod: Pod, node_name: str) -> None:
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        if pod.name == "in-vain":
            raise ApiError(404, "NotFound", "no such pod")
        self.where[pod.uid] = node_name
        if pod.name == "no-answer":
            raise ApiError(0, "Timeout", "no answer in time")

    async def get(self, path: str) -> dict[str, Any]:
        self.looks += 1
        if self.refusals:
            raise self.refusals.pop()
        name = path.rpartition("/")[2]
        return {"metadata": {"uid": name}, "spec": {"nodeName": self.where.get(name, "")}}

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class Acts(PreBindPlugin, BindPlugin, PostBindPlugin):
    """Does for each pod what its `how` label says, at the point that its `at` label names."""

    name = "Acts"

    def __init__(self) -> None:
        super().__init__(None, CoreHandle())
        self.obeys = False
        """Whether who "goes on" stops from now on, so that the test can end."""
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
                if pod.labels["how"] == "says that it is done":
                    return
                if pod.labels["how"] != "goes on" or self.obeys:
                    raise
                try:
                    await api.bind(pod, node_name)
                except Exception as problem:
                    self.late.append(problem)


@dataclass
class BindingFixture:
    """Bindings with a server, a clock that stands still, and what was told."""

    server: BindingServer = field(default_factory=BindingServer)
    clock: VirtualClock = field(default_factory=VirtualClock)
    metrics: Metrics = field(default_factory=Metrics)
    told: list[Event] = field(default_factory=list)
    recorded: list[Record] = field(default_factory=list)
    in_flight: InFlightCounter = field(default_factory=InFlightCounter)
    acts: Acts = field(default_factory=Acts)

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
        return {event.uid: event for event in self.told if isinstance(event, Bound | BindFailed)}

    @property
    def bindings(self) -> Bindings:
        assert self._bindings is not None
        return self._bindings

    _bindings: Bindings | None = None

    async def after(self, seconds: float) -> None:
        """Let time pass, and somebody look after the bindings."""
        self.clock.at += seconds
        self.bindings.look()
        await settle()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins are given hardly any time to stop."""
    monkeypatch.setattr(cancellation, "PATIENCE", 0.01)


@asynccontextmanager
async def world() -> AsyncIterator[BindingFixture]:
    made = BindingFixture()
    made.server.answers.set()
    api, limit = cast(ApiWriter, made.server), ConcurrencyLimit(WORKERS)
    bindings = made._bindings = Bindings(api, made.in_flight, made.clock, limit)
    bindings.emit, bindings.record = made.told.append, made.recorded.append
    bindings.instrument = MetricsInstrument(made.metrics, made.clock.now)
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
    raise AssertionError("it does not come to that")


@pytest.mark.parametrize("at", ["Bind", "PostBind"])
async def test_pods_that_a_plugin_keeps_for_ever_take_no_worker_from_others(at: str) -> None:
    async with world() as here:
        for i in range(3 * WORKERS):
            here.begin(f"hung{i}", at)
        here.begin("fine")
        await settle()
        was_full = here.is_full
        assert "fine" not in here.outcomes
        for _ in range(3):
            await here.after(LONG + 0.1)
        assert (was_full, here.is_full) == (True, False)
        assert isinstance(here.outcomes["fine"], Bound)
        assert here.bindings.detached_by_plugin() == {("Acts", at): 3 * WORKERS}
        assert here.in_flight.bindings == 0  # Events are not kept waiting either
        assert any(isinstance(event, Tick) for event in here.told)


async def test_the_more_pods_a_plugin_keeps_the_less_it_is_waited_for() -> None:
    async with world() as here:
        for i in range(3 * WORKERS):
            here.begin(f"hung{i}", "Bind")
        await settle()
        await here.after(LONG + 0.1)
        await here.after(LONG / WORKERS)
        await here.after(LONG / WORKERS)
        assert here.bindings.detached_by_plugin() == {("Acts", "Bind"): 3 * WORKERS}


async def test_a_slow_server_is_waited_for() -> None:
    """Whoever decides on while calls are stuck decides on an old cluster, and opens more and more connections."""
    async with world() as here:
        here.server.answers.clear()
        for i in range(WORKERS):
            here.begin(f"p{i}")
        await settle()
        await here.after(80.0)
        assert (here.is_full, here.bindings.detached_by_plugin()) == (True, {})


async def test_a_binding_that_waits_for_what_is_being_said_of_its_pod_is_waited_for_too() -> None:
    """That is the server's time as well, and no plugin is to blame."""
    async with world() as here:
        written = asyncio.Event()
        here.bindings.withdraw = lambda _: written
        for i in range(WORKERS):
            here.begin(f"p{i}")
        await settle()
        await here.after(80.0)
        assert (here.is_full, here.bindings.detached_by_plugin(), here.server.where) == (True, {}, {})
        written.set()
        await settle()
    assert len(here.server.where) == WORKERS


async def test_who_hangs_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as here:
        here.begin("first", "Bind")
        await settle()
        here.clock.at += 1.0
        for i in range(2):
            here.begin(f"hung{i}", "Bind")
        await settle()
        await here.after(LONG + 0.1)
        await here.after(LONG + 0.1)
    (line,) = [record for record in caplog.records if "is slow" in record.message]
    assert vars(line)["fields"] == {
        "plugin": "Acts", "point": "Bind", "pod": "default/first", "node": "n1", "seconds": 6.1, "pods": 3
    }  # fmt: skip


@pytest.mark.parametrize("at", ["PreBind", "Bind", "PostBind"])
@pytest.mark.parametrize("begun", [True, False])
async def test_of_a_pod_that_is_gone_nothing_goes_on_and_nothing_is_told(at: str, begun: bool) -> None:
    async with world() as here:
        here.begin("gone", at)
        if begun:
            await settle()
        here.bindings.cancel("gone")
        await until(lambda: here.bindings.unfinished == 0)
        await settle()
        assert (here.told, here.bindings.detached_by_plugin(), here.in_flight.bindings) == ([], {}, 0)
        assert not here.is_full


async def test_a_pod_that_is_gone_leaves_the_line() -> None:
    async with world() as here:
        here.server.answers.clear()
        for i in range(WORKERS):
            here.begin(f"p{i}")
        here.begin("waits")
        await settle()
        here.bindings.cancel("waits")
        here.server.answers.set()
        await until(lambda: here.bindings.unfinished == 0)
        assert sorted(here.outcomes) == [f"p{i}" for i in range(WORKERS)]


async def test_of_a_pod_that_is_gone_no_call_is_cut_off() -> None:
    """Its connection would have to be made anew; the answer comes in time, and is that there is no such pod."""
    async with world() as here:
        here.server.answers.clear()
        here.begin("in-vain")
        await settle()
        here.bindings.cancel("in-vain")
        await settle()
        assert (here.server.cut_off, here.bindings.unfinished) == (0, 1)
        here.server.answers.set()
        await until(lambda: here.bindings.unfinished == 0)
        assert (here.server.cut_off, here.told) == (0, [])


async def test_what_takes_too_long_is_tried_again() -> None:
    async with world() as here:
        here.bindings.timeout = 60.0
        for at in ("PreBind", "Bind"):
            here.begin(at.lower(), at)
        await settle()
        await here.after(61.0)
        await until(lambda: here.bindings.unfinished == 0)
        assert {uid: getattr(event, "message", "") for uid, event in here.outcomes.items()} == {
            "prebind": 'running PreBind plugin "Acts": no end after 60s',
            "bind": 'running Bind plugin "Acts": no end after 60s',
        }
        assert dict(here.metrics.called_off.counts) == {("Acts", at, "timeout"): 1 for at in ("PreBind", "Bind")}


@pytest.mark.parametrize("how", ["hangs", "says that it is done"])
async def test_whether_a_pod_that_was_called_off_is_bound_is_for_the_server_to_say(how: str) -> None:
    async with world() as here:
        here.bindings.timeout = 60.0
        here.server.refusals = [ApiError(0, "Unreachable", "connection refused"), ApiError(500, "", "etcd is away")]
        for name in ("bound", "not-bound"):
            here.begin(name, "Bind", how)
        here.server.where["bound"] = "n1"  # by somebody whom the plugin asked
        await settle()
        await here.after(61.0)
        await until(lambda: here.bindings.unfinished == 0)
        assert {uid: type(event) for uid, event in here.outcomes.items()} == {"bound": Bound, "not-bound": BindFailed}


async def test_a_pod_that_is_known_to_be_bound_is_not_looked_up() -> None:
    async with world() as here:
        here.bindings.timeout = 60.0
        here.begin("bound", "Bind", "binds, then hangs")
        await settle()
        await here.after(61.0)
        await until(lambda: here.bindings.unfinished == 0)
        assert (type(here.outcomes["bound"]), here.server.looks) == (Bound, 0)


async def test_a_binding_that_was_sent_is_not_cut_off() -> None:
    async with world() as here:
        here.bindings.timeout = 60.0
        here.server.answers.clear()
        here.begin("sent", "Bind", "binds, then hangs")
        await settle()
        await here.after(61.0)
        assert here.told == []
        here.server.answers.set()
        await settle()
        await here.after(1.0)
        await until(lambda: here.bindings.unfinished == 0)
        assert isinstance(here.outcomes["sent"], Bound)


@pytest.mark.parametrize("name", ["no-answer", "in-vain"])
async def test_a_binding_without_an_answer_is_looked_up(name: str) -> None:
    async with world() as here:
        here.begin(name)
        await until(lambda: here.bindings.unfinished == 0)
        assert (type(here.outcomes[name]), here.server.looks) == {
            "no-answer": (Bound, 1),
            "in-vain": (BindFailed, 0),
        }[name]


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("at", ["PreBind", "Bind"])
async def test_a_plugin_that_does_not_stop_is_told_and_can_do_no_more_harm(
    at: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as here:
        here.bindings.timeout = 60.0
        here.begin("stuck", at, "goes on")
        await settle()
        await here.after(61.0)
        await until(lambda: here.bindings.unfinished == 0)
        assert isinstance(here.outcomes["stuck"], BindFailed)
        assert [str(problem) for problem in here.acts.late] == ["the binding cycle was cancelled"]
        assert here.server.where == {}
        assert dict(here.metrics.plugin_failures.counts) == {("Acts", at): 1}
        assert "default/stuck" in str(vars(caplog.records[-1])["fields"])
        assert here.bindings.detached_by_plugin() == {}
        for i in range(WORKERS):
            here.begin(f"next{i}")
        await until(lambda: here.bindings.unfinished == 0)
        here.acts.obeys = True


async def test_a_victim_in_pre_bind_that_is_chosen_twice_is_called_off_once() -> None:
    async with world() as here:
        here.begin("victim", "PreBind")
        note = Record(EventType.NORMAL, "Preempted", "Preempting", "by another", pod("victim").build())
        evict = Evict(pod("victim").build(), pod("high").build(), "", note, "DefaultPreemption")
        assert here.bindings.preempt(evict)
        assert here.bindings.preempt(evict)
        await until(lambda: here.bindings.unfinished == 0)
        await settle()
        assert [record.note for record in here.recorded] == ["by another (in kube-scheduler memory)."]
        assert not here.bindings.preempt(evict)


@pytest.mark.parametrize("at", ["PreBind", "Bind"])
def test_a_plugin_that_does_not_stop_does_not_keep_the_process(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "STOPPING", 0.01)

    async def life() -> None:
        async with world() as here:
            here.begin("stuck", at, "goes on")
            await settle()

    asyncio.run(life())
    gc.collect()  # asyncio complains of the task that it forgot, and must do so in no other test
