"""Signals that stop a command: the first one ends its work in order, the second one ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from pyscheduler import logs

Result = TypeVar("Result")
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
EXIT_CODE: Final = 1
"""Exit code after the second signal, which leaves the work unfinished: a lease is not released, for example."""
log = logs.get("run")


async def until_signalled(
    main: Callable[[], Coroutine[Any, Any, Result]], signals: Sequence[signal.Signals] = STOP_SIGNALS
) -> Result | None:
    """Return the coroutine's result, None if a signal cancelled it. Its exceptions are raised.

    After the first signal, one of STOP_SIGNALS ends the process at once, as in kube-scheduler.
    """
    work = asyncio.create_task(main())

    def stop() -> None:
        if not work.cancelling():  # a closed terminal may send SIGHUP twice
            log.info("Stopping")
            work.cancel()
        for number in STOP_SIGNALS:
            signal.signal(number, _exit)  # not in the loop, which the end of the work may block

    for number in signals:
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # started by nohup
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return None


def _exit(*_: object) -> None:
    os._exit(EXIT_CODE)
