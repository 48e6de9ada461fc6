"""API calls of plugins: a failed call is made again only if its command retries."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pyscheduler.api import ApiError, ApiWriter
from pyscheduler.core.commands import CallApi
from pyscheduler.shell import api_calls
from pyscheduler.shell.api_calls import PluginApiCaller, retry_delay


@pytest.mark.parametrize(("failures", "seconds"), [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (10_000, 300)])
def test_pause_doubles_with_each_failure_up_to_five_minutes(failures: int, seconds: float) -> None:
    assert retry_delay(failures) == seconds


@pytest.mark.asyncio
@pytest.mark.parametrize(("retries", "expected"), [(True, 3), (False, 1)])
@pytest.mark.parametrize(
    "error", [ApiError(403, "Forbidden", "no right"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()]
)
async def test_failed_call_is_made_again_until_it_succeeds(
    error: BaseException, retries: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_calls, "RETRY_SECONDS", 0.0)
    calls, succeeded = 0, asyncio.Event()

    async def call(api: ApiWriter) -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise error
        succeeded.set()

    async def other(api: ApiWriter) -> None:
        ended.set()

    ended = asyncio.Event()
    caller = PluginApiCaller(cast(ApiWriter, None))
    caller.add(CallApi("Queues", call, retries))
    running = asyncio.create_task(caller.run())
    if retries:
        await asyncio.wait_for(succeeded.wait(), 10)
    caller.add(CallApi("Queues", other))
    await asyncio.wait_for(ended.wait(), 10)
    running.cancel()
    assert calls == expected
