"""asyncio tasks that plugins start: what they raise stays in the task.

asyncio passes SystemExit and KeyboardInterrupt of a task on to the caller of the loop, around the guard of the plugin's
call: a library in such a task could end the process. So the task fails with a RuntimeError instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from pyscheduler.core.framework.plugin_failure import describe, is_external

IN_PLUGIN: Final = ContextVar("IN_PLUGIN", default=False)
"""True in the context of plugins: the tasks that they start inherit it, and are contained."""


def is_own_cancellation(error: BaseException) -> bool:
    """Return True if the error is the cancellation of the current task, not a CancelledError that a plugin raised."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # the test kit runs binding cycles without an event loop, and cancels none
        return False
    return task is not None and task.cancelling() > 0


def contain_plugin_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop contain the tasks of plugins. All other tasks are created as before."""
    create = loop.get_task_factory() or _create_task
    if not isinstance(create, _TaskFactory):
        loop.set_task_factory(_TaskFactory(create))


def _create_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
    return asyncio.Task(coroutine, loop=loop, **more)


class _TaskFactory:
    def __init__(self, create: Callable[..., asyncio.Future[Any]]) -> None:
        self._create = create

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> Any:
        contained = _Contained(coroutine) if IN_PLUGIN.get() and asyncio.iscoroutine(coroutine) else coroutine
        return self._create(loop, contained, **more)


class _Contained(Coroutine[Any, Any, Any]):
    """Coroutine of a task of a plugin. It is no `async def`, so that one that never starts is closed as usual."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except (SystemExit, KeyboardInterrupt) as raised:
            _fail_task(raised)

    def throw(self, *error: Any) -> Any:
        try:
            return self._coroutine.throw(*error)
        except (SystemExit, KeyboardInterrupt) as raised:
            _fail_task(raised)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)  # the name and the frame, for texts of asyncio


def _fail_task(error: BaseException) -> NoReturn:
    """Raise the error with which a task ends. A signal is passed on."""
    if is_external(error):
        raise error
    raise RuntimeError(f"a task raised {describe(error)}") from error
