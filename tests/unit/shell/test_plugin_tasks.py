"""SystemExit and KeyboardInterrupt in tasks that a plugin starts do not leave the event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from pyscheduler.api import ApiWriter, Cycle, Pod, PreBindPlugin
from pyscheduler.core.commands import Bind, BindingPlan
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.shell.binding.cycle import run_binding
from pyscheduler.shell.binding.plugin_tasks import contain_plugin_tasks
from pyscheduler.shell.instrument import MetricsInstrument
from pyscheduler.shell.metrics import Metrics
from pyscheduler.testing import pod
from tests.unit.kube.virtual import VirtualClock

Acts = Callable[[], Awaitable[object]]


class Starts(PreBindPlugin):
    """Runs `acts` in PreBind."""

    name = "Starts"
    acts: Acts

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await self.acts()


async def interrupts() -> None:
    await asyncio.sleep(0)
    raise KeyboardInterrupt


async def exits() -> None:
    sys.exit(3)


async def exits_when_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        sys.exit(3)


async def cancels() -> None:
    task = asyncio.create_task(exits_when_cancelled())
    await asyncio.sleep(0)
    task.cancel()
    await task


async def cancels_at_once() -> None:
    task = asyncio.create_task(exits())
    task.cancel()
    await asyncio.wait({task})


async def in_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(exits())


async def nested() -> None:
    await asyncio.create_task(in_group())


async def returns() -> None:
    async def three() -> int:
        await asyncio.sleep(0)
        return 3

    assert [*await asyncio.gather(three(), asyncio.wait_for(three(), 1))] == [3, 3]
    assert "three" in repr(asyncio.create_task(three()))


@pytest.fixture
async def contained() -> AsyncIterator[asyncio.AbstractEventLoop]:
    loop = asyncio.get_running_loop()
    contain_plugin_tasks(loop)
    yield loop
    loop.set_task_factory(None)


async def pre_bind(acts: Acts) -> Bound | BindFailed:
    """Run a binding cycle in a task of its own, as the scheduler does."""
    plugin, clock, subject = Starts(None, empty_handle()), VirtualClock(), pod("a").build()
    plugin.acts = acts
    command = Bind(subject, "n1", Cycle(0.0, "mine", subject.uid), BindingPlan((plugin,), (), ()))
    instrument = MetricsInstrument(Metrics(), clock.now)
    return await asyncio.create_task(run_binding(command, cast(ApiWriter, None), clock, instrument))


@pytest.mark.parametrize(
    ("acts", "text"),
    [
        (lambda: asyncio.create_task(exits()), "RuntimeError: a task raised SystemExit: 3"),
        (lambda: asyncio.gather(interrupts(), exits()), "RuntimeError: a task raised SystemExit: 3"),
        (lambda: asyncio.create_task(interrupts()), "RuntimeError: a task raised KeyboardInterrupt"),
        (cancels, "RuntimeError: a task raised SystemExit: 3"),
        (in_group, "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"),
        (nested, "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"),
    ],
    ids=["task", "gather", "interrupt", "cancelled", "group", "nested"],
)
@pytest.mark.usefixtures("contained")
async def test_exit_of_a_task_fails_the_plugin_that_awaits_it(acts: Acts, text: str) -> None:
    outcome = await pre_bind(acts)
    assert isinstance(outcome, BindFailed)
    assert outcome.message == f'running PreBind plugin "Starts": {text}'


@pytest.mark.parametrize("acts", [cancels_at_once, returns])
@pytest.mark.usefixtures("contained")
async def test_other_tasks_of_plugins_are_as_usual(acts: Acts) -> None:
    outcome = await pre_bind(acts)
    assert isinstance(outcome, BindFailed)
    assert outcome.message == "bind status: every Bind plugin skipped the pod"


async def test_tasks_outside_of_plugins_are_as_before(contained: asyncio.AbstractEventLoop) -> None:
    async def acts() -> None: ...

    coroutine: Any = acts()
    task = contained.create_task(coroutine)
    assert task.get_coro() is coroutine
    await task
