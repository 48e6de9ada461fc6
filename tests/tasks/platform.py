"""Owner process of a chaos run, which is killed and restarted until its tasks have settled.

    python -m tests.tasks.platform '{"folder": …}'

After each start it submits all its tasks again, like an owner without memory of its progress. It writes each update as
a line of `journal.jsonl` before it returns from `on_update`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyscheduler.backend.backend import KubernetesTaskBackend
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.offers import FixedBudget
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import TaskRecord
from tests.tasks.kinds import KILLED, kind_of, tasks

STATE, JOURNAL, SUMMARY = "tasks.db", "journal.jsonl", "summary.json"


async def main(options: dict[str, Any]) -> None:
    """Submit all tasks and wait until they have settled."""
    folder = Path(options["folder"])
    journal = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append_to_journal(record: TaskRecord) -> None:
        line = {"id": record.id, "version": record.version, "phase": record.phase, "attempt": record.attempt}
        os.write(journal, (json.dumps(line) + "\n").encode())

    budget = Resources.of({"pods": options["maxPods"]})
    specs = tasks(options["tasks"], options["pool"], options["scheduler"])
    client = KubernetesClient(options["namespace"], kubeconfig=options["kubeconfig"], qps=options["qps"], burst=500)
    settings = BackendSettings(name="chaos", poll_seconds=options["pollSeconds"])
    state = SqliteState(folder / STATE)
    async with (
        client,
        KubernetesTaskBackend(
            client, state, FixedBudget(budget), settings=settings, on_update=append_to_journal
        ) as backend,
    ):
        killing = asyncio.create_task(_kill(backend, [spec.id for spec in specs if kind_of(spec.id) == KILLED]))
        await backend.submit_all(specs)
        await killing
        await backend.wait_until_settled()
        free = backend.offer().free
        summary = {
            "free": free.amounts if free is not None else None,
            "budget": budget.amounts,
            "tasks": len(backend.tasks()),
            "calls": dict(client.calls),
        }
        (folder / SUMMARY).write_text(json.dumps(summary))


async def _kill(backend: KubernetesTaskBackend, ids: list[str]) -> None:
    """Kill each task soon after its submission, in any phase."""
    remaining = set(ids)
    while remaining:
        for id in sorted(remaining & backend.tasks().keys()):
            remaining.discard(id)
            if not backend.task(id).final:
                await backend.kill(id)
        await asyncio.sleep(0.3)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
