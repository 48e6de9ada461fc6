"""Owner process of a chaos run, which is killed and restarted until its tasks have settled.

    python -m tests.tasks.platform '{"folder": …}'

After each start it submits all its tasks again, like an owner without memory of its progress. It writes each update as
a line of `journal.jsonl` before it returns from `on_update`. With `hostile` its callback raises and blocks at times,
its event loop is blocked once, and its system clock jumps.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pyscheduler.backend.backend import KubernetesTaskBackend
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.offers import FixedBudget
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state import StateProblem
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import TaskRecord
from tests.tasks.kinds import KILLED, kind_of, tasks

STATE, JOURNAL, SUMMARY = "tasks.db", "journal.jsonl", "summary.json"
RAISING, BLOCKING = 0.05, 0.01
"""Shares of the calls of on_update that raise, and that block."""
BLOCKED_SECONDS = 2.0
LOOP_BLOCKED_SECONDS = 6.0
CLOCK_JUMPS = 3_600.0
"""Most seconds by which a reading of the system clock is wrong."""


class Owner:
    """Callback of the backend, which appends each update to the journal."""

    def __init__(self, journal: Path, rng: random.Random, *, hostile: bool) -> None:
        self._file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._rng, self._hostile = rng, hostile

    def on_update(self, record: TaskRecord) -> None:
        """Write the record to the journal; called in several threads at a time."""
        if self._hostile and self._rng.random() < BLOCKING:
            time.sleep(BLOCKED_SECONDS)
        line = {"id": record.id, "version": record.version, "phase": record.phase, "attempt": record.attempt}
        os.write(self._file, (json.dumps(line) + "\n").encode())
        if self._hostile and self._rng.random() < RAISING:
            raise ConnectionError("the owner's database is away")

    def clock(self) -> float:
        """Return the time of a system clock that is set all the time."""
        return time.time() + (self._rng.uniform(-CLOCK_JUMPS, CLOCK_JUMPS) if self._hostile else 0.0)


async def main(options: dict[str, Any]) -> None:
    """Submit all tasks and wait until they have settled."""
    folder = Path(options["folder"])
    owner = Owner(folder / JOURNAL, random.Random(), hostile=options["hostile"])
    budget = Resources.of({"pods": options["maxPods"]})
    specs = tasks(options["tasks"], options["pool"], options["scheduler"], options.get("kind", ""))
    client = KubernetesClient(options["namespace"], kubeconfig=options["kubeconfig"], qps=options["qps"], burst=500)
    settings = BackendSettings(name="chaos", poll_seconds=options["pollSeconds"], keep_failed_seconds=1.5)
    state = SqliteState(folder / STATE)
    async with (
        client,
        KubernetesTaskBackend(
            client, state, FixedBudget(budget), settings=settings, on_update=owner.on_update, clock=owner.clock
        ) as backend,
    ):
        blocking = asyncio.create_task(_block_loop()) if options["hostile"] else None
        killing = asyncio.create_task(_kill(backend, [spec.id for spec in specs if kind_of(spec.id) == KILLED]))
        await _until_stored(lambda: backend.submit_all(specs))
        await killing
        await backend.wait_until_settled()
        while not all(record.acknowledged for record in backend.tasks().values()):  # noqa: ASYNC110  # the owner's side
            await asyncio.sleep(0.1)
        if blocking is not None:
            blocking.cancel()
        free = backend.offer().free
        summary = {
            "free": free.amounts if free is not None else None,
            "budget": budget.amounts,
            "tasks": len(backend.tasks()),
            "orphans": sorted(backend.orphans()),
            "problem": backend.problem,
            "calls": dict(client.calls),
        }
    (folder / SUMMARY).write_text(json.dumps(summary))


async def _until_stored(call: Callable[[], Awaitable[object]]) -> None:
    """Repeat a call of the backend until its effect is stored; it fails while the disk is full."""
    while True:
        try:
            await call()
        except StateProblem:
            await asyncio.sleep(1.0)
        else:
            return


async def _block_loop() -> None:
    """Block the event loop once, as a careless coroutine of the owner does."""
    await asyncio.sleep(5.0)
    time.sleep(LOOP_BLOCKED_SECONDS)  # noqa: ASYNC251  # the fault


async def _kill(backend: KubernetesTaskBackend, ids: list[str]) -> None:
    """Kill each task soon after its submission, in any phase."""
    remaining = set(ids)
    while remaining:
        for id in sorted(remaining & backend.tasks().keys()):
            remaining.discard(id)
            if not backend.task(id).final:
                await _until_stored(lambda id=id: backend.kill(id))  # type: ignore[misc]  # bound at once
        await asyncio.sleep(0.3)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
