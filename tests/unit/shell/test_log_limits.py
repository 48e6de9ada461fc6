"""An API server that rejects every call, and a client that makes every call fail, do not fill the log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from pyscheduler import logs
from pyscheduler.api import ApiError, ApiWriter
from pyscheduler.controllers import key_queue, status_writer
from pyscheduler.controllers.handlers import POD_GROUPS
from pyscheduler.controllers.key_queue import KeyQueue
from pyscheduler.controllers.status_writer import ObjectStatusWriter
from pyscheduler.core.commands import CallApi, Evict, GetPod, PatchPodGroup, PatchStatus
from pyscheduler.core.instrument import Instrument
from pyscheduler.kube.decode import Refusals
from pyscheduler.shell.api_calls import PluginApiCaller
from pyscheduler.shell.binding.concurrency import InFlightCounter
from pyscheduler.shell.evictor import Evictor
from pyscheduler.shell.lookup import PodLookup
from pyscheduler.shell.patcher import Patcher
from pyscheduler.shell.pod_group_conditions import PodGroupConditionWriter
from pyscheduler.shell.serving.allowed_paths import AllowedPaths
from pyscheduler.shell.serving.authorization import AuthorizationFilter
from pyscheduler.shell.serving.client_ca import FileAuthorities
from pyscheduler.shell.serving.messages import ServerRequest
from pyscheduler.shell.serving.reviews import Reviewer
from pyscheduler.testing import pod
from tests.unit.kube.virtual import SteppedClock, VirtualClock

from .test_executor import ExecutorFixture, bind, executing

FAILURES = 200
LINES = 10
NAMES = [f"pod-{number}" for number in range(FAILURES)]
Fail = Callable[[Any], Awaitable[None]]
"""Makes FAILURES calls to an API server that rejects them all."""


class RejectingApi:
    """API server that rejects every call, each with a text of its own."""

    def __init__(self) -> None:
        self.calls = 0
        self.done = asyncio.Event()

    def _reject(self, *_: Any, **__: Any) -> Coroutine[Any, Any, Any]:
        async def rejected() -> Any:
            self.calls += 1
            if self.calls == FAILURES:
                self.done.set()
            raise ApiError(403, "Forbidden", f"rejected call {self.calls}")

        return rejected()

    get = merge = patch = evict = request = _reject


async def until_all_have_failed(api: RejectingApi, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    async with asyncio.timeout(30):
        await api.done.wait()
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def statuses(api: Any) -> None:
    patcher = Patcher(api, InFlightCounter(), VirtualClock())
    for name in NAMES:
        patcher.add(PatchStatus(pod(name).build(), None, ""))
    await until_all_have_failed(api, patcher.run())


async def evictions(api: Any) -> None:
    evictor = Evictor(api, cast(Any, None), InFlightCounter(), SteppedClock(), lambda _: None, Instrument())
    for name in NAMES:
        evictor.add(Evict(pod(name).build(), pod("preemptor").build(), ""))
    await until_all_have_failed(api, evictor.run())


async def lookups(api: Any) -> None:
    lookup = PodLookup(api, VirtualClock(), lambda _: None)
    for name in NAMES:
        lookup.add(GetPod(pod(name).build()))
    await until_all_have_failed(api, lookup.run())


async def conditions_of_pod_groups(api: Any) -> None:
    writer = PodGroupConditionWriter(api, VirtualClock())
    for name in NAMES:
        writer.add(PatchPodGroup(POD_GROUPS, "default", name, "", "Scheduled", "True", "Scheduled", ""))
    await until_all_have_failed(api, writer.run())


async def calls_of_plugins(api: Any) -> None:
    caller = PluginApiCaller(api)

    async def call(client: ApiWriter) -> None:
        await client.get("/")

    for _ in NAMES:
        caller.add(CallApi("Plugin", call))
    await until_all_have_failed(api, caller.run())


async def bindings(api: Any) -> None:
    refusals: dict[str, Exception] = {name: ApiError(403, "Forbidden", f"not {name}") for name in NAMES}
    emitted = asyncio.Event()
    fixture = ExecutorFixture(refusals=refusals)
    fixture.on_event = lambda _: emitted.set() if len(fixture.emitted) == FAILURES else None
    fixture.release.set()
    async with executing(fixture) as executor, asyncio.timeout(30):
        for name in NAMES:
            executor.execute(bind(name))
        await emitted.wait()


async def statuses_of_controllers(api: Any) -> None:
    writer = ObjectStatusWriter(api.patch, lambda: 0.0)
    for name in NAMES:
        writer.enqueue(POD_GROUPS, ("default", name), {"metadata": {}}, lambda *_: {"phase": "Running"})
    await until_all_have_failed(api, writer.run())


async def keys_of_controllers(api: Any) -> None:
    queue: KeyQueue[str] = KeyQueue("Volcano Job", api.get)
    for name in NAMES:
        queue.add(name)
    await until_all_have_failed(api, queue.run())


async def reviews_of_tokens(api: Any) -> None:
    gate = AuthorizationFilter(Reviewer(api, api, VirtualClock()), AllowedPaths())
    for token in NAMES:
        await gate.refusal(request("/metrics", {"authorization": f"Bearer {token}"}), served=True)


async def reviews_of_access(api: Any) -> None:
    gate = AuthorizationFilter(Reviewer(api, api, VirtualClock()), AllowedPaths())
    for name in NAMES:
        await gate.refusal(request(f"/{name}", {}), served=True)


async def connections_without_client_ca(_: Any) -> None:
    authorities = authorities_of_removed_file(Path("removed.crt"))
    for _name in NAMES:
        await authorities.current()


async def unreadable_objects(_: Any) -> None:
    refusals = Refusals()
    for name in NAMES:
        refusals.report("pods", "default", name, ValueError(f"quantity {name}"))


def authorities_of_removed_file(file: Path) -> FileAuthorities:
    file.write_text("")
    authorities = FileAuthorities(file)
    file.unlink()
    return authorities


def request(path: str, headers: dict[str, str]) -> ServerRequest:
    return ServerRequest(path, {}, headers, "GET", path, None)


@pytest.mark.parametrize(
    "fail",
    [
        statuses,
        evictions,
        lookups,
        conditions_of_pod_groups,
        calls_of_plugins,
        bindings,
        statuses_of_controllers,
        keys_of_controllers,
        reviews_of_tokens,
        reviews_of_access,
        connections_without_client_ca,
        unreadable_objects,
    ],
)
async def test_failure_that_repeats_for_each_object_has_ten_lines_a_minute(
    fail: Fail, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (key_queue, status_writer):
        monkeypatch.setattr(module, "BATCH_SECONDS", 0.0)
    await fail(RejectingApi())
    assert len(caplog.records) == LINES


def test_problem_that_the_limit_suppressed_is_logged_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = Refusals()
    for name in NAMES:
        refusals.report("pods", "default", name, ValueError(f"quantity {name}"))
    refusals.report("nodes", "", "worker-7", ValueError("quantity of the node"))
    assert caplog.records[-1].__dict__["fields"]["object"] == "worker-7"
    monkeypatch.setattr(logs, "PERIOD_SECONDS", 0.0)
    for name in NAMES:
        refusals.report("pods", "default", name, ValueError(f"quantity {name}"))
    assert len(caplog.records) == LINES + 1 + FAILURES - LINES
