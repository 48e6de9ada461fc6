"""The owner of the tasks in a chaos run: a process that is killed and started anew until its tasks have settled.

    python -m tests.tasks.platform '{"folder": …}'

Each time it submits all of its tasks, as an owner does that does not know how far it came. What it is told goes into
`journal.jsonl`, a line an update, before the backend is answered.
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


async def main(wishes: dict[str, Any]) -> None:
    """Until all has settled."""
    folder = Path(wishes["folder"])
    journal = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(record: TaskRecord) -> None:
        line = {"id": record.id, "version": record.version, "phase": record.phase, "attempt": record.attempt}
        os.write(journal, (json.dumps(line) + "\n").encode())

    budget = Resources.of({"pods": wishes["atOnce"]})
    specs = tasks(wishes["tasks"], wishes["pool"], wishes["scheduler"])
    client = KubernetesClient(wishes["namespace"], kubeconfig=wishes["kubeconfig"], qps=wishes["qps"], burst=500)
    settings = BackendSettings(name="chaos", poll_seconds=wishes["pollSeconds"])
    state = SqliteState(folder / STATE)
    async with (
        client,
        KubernetesTaskBackend(client, state, FixedBudget(budget), settings=settings, on_update=note) as backend,
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


async def _kill(backend: KubernetesTaskBackend, doomed: list[str]) -> None:
    """Each soon after it was submitted, in whatever phase it is by then."""
    left = set(doomed)
    while left:
        for id in sorted(left & backend.tasks().keys()):
            left.discard(id)
            if not backend.task(id).final:
                await backend.kill(id)
        await asyncio.sleep(0.3)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
