"""`pyscheduler tasks` from the command line: one process runs a state file, others send requests to it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from pyscheduler.backend.state.request_queue import RequestQueue
from pyscheduler.cli import task_view
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes
from tests.faults.waiting import until
from tests.tasks.rights import kubeconfig_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
PROGRAM = (sys.executable, "-m", "pyscheduler", "tasks")


class Commands:
    """Runs them in one folder, against one namespace with nodes and a scheduler of its name."""

    def __init__(self, folder: Path, kubeconfig: Path, namespace: str) -> None:
        self._folder, self._kubeconfig, self.namespace = folder, kubeconfig, namespace

    async def __call__(self, *words: str) -> tuple[int | None, str, str]:
        """Return exit code, standard output, standard error."""
        process = await self._started(*words)
        out, err = await asyncio.wait_for(process.communicate(), 60.0)
        assert "Traceback" not in err.decode()
        return process.returncode, out.decode(), err.decode()

    @asynccontextmanager
    async def working(self, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """`run` for as long as the block lasts, and until it has ended of itself."""
        process = await self._started("run", *self.flags, *flags)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            out, err = await asyncio.wait_for(process.communicate(), 60.0)
        assert process.returncode in (0, -signal.SIGKILL), (out, err)

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--kubeconfig", str(self._kubeconfig), "-n", self.namespace, "--scheduler", self.namespace)

    def phase(self, task: str) -> str:
        """Return the phase that `list` shows, without starting a process."""
        with RequestQueue(self._folder / "tasks.db") as box:
            found = task_view.rows(box).get(task)
        return "" if found is None else found.phase

    async def until(self, task: str, phase: str) -> None:
        async def there() -> bool:
            return self.phase(task) == phase

        await until(there, 60.0)

    async def _started(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *PROGRAM,
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env={**os.environ, "COLUMNS": "120"},
        )


@pytest_asyncio.fixture(loop_scope="session")
async def tasks(control_plane: Plane, namespace: str, tmp_path: Path) -> AsyncIterator[Commands]:
    async with hollow_nodes(control_plane, namespace, 2), scheduler(control_plane, Configured(namespace), tmp_path):
        yield Commands(tmp_path, await kubeconfig_of(control_plane, namespace), namespace)


def lines(*tasks: Mapping[str, object]) -> str:
    return "".join(json.dumps({"image": "pause:1", "cpu": "100m", **task}) + "\n" for task in tasks)


RUNS = {"pyscheduler.io/run-seconds": "0.2"}


async def test_tasks_submitted_before_run_starts_are_run(tasks: Commands, tmp_path: Path) -> None:
    (tmp_path / "many.jsonl").write_text(lines(*({"id": f"t-{i}", "annotations": RUNS} for i in range(12))))
    code, out, _ = await tasks("submit", "--file", "many.jsonl")
    assert (code, out.startswith("12 submitted; not running, start it with `pyscheduler tasks run")) == (0, True)
    code, out, err = await tasks("run", *tasks.flags, "--budget", "pods=3", "--once")
    assert (code, sorted(out.splitlines())) == (0, sorted(f"t-{i} Succeeded" for i in range(12))), err
    _, out, _ = await tasks("list")
    assert out.splitlines()[-1].startswith("12 succeeded")
    assert (await tasks("submit", "--file", "many.jsonl"))[1].startswith("0 submitted, 12 submitted before")


async def test_failure_sets_the_exit_code(tasks: Commands, tmp_path: Path) -> None:
    await tasks("submit", "wrong", "--image", "pause:1")
    ends = json.dumps({"id": "fails", "image": "i", "annotations": {"pyscheduler.io/fail-after-seconds": "0.2"}})
    code, out, err = await tasks("kill", "wrong")
    assert (code, out.startswith("1 to be killed")) == (0, True), err
    (tmp_path / "fails.jsonl").write_text(ends)
    await tasks("submit", "--file", "fails.jsonl")
    code, out, _ = await tasks("run", *tasks.flags, "--once")
    assert code == 1
    assert "fails Failed: a container exited with an error" in out
    code, out, _ = await tasks("list", "--phase", "Refused")
    assert "killed before it was submitted" in out


async def test_submit_watch_kill_and_offers_during_run(tasks: Commands) -> None:
    async with tasks.working("--budget", "cpu=1", "--budget", "pods=4"):
        for number in range(4):
            await tasks("submit", f"long-{number}", "--image", "pause:1", "--cpu", "250m")
        for number in range(4):
            await tasks.until(f"long-{number}", "Running")
        _, out, _ = await tasks("submit", "waits", "--image", "pause:1", "--cpu", "250m")
        assert out == "1 submitted\n"
        _, out, _ = await tasks("submit", "huge", "--image", "pause:1", "--cpu", "2")

        async def has_reported() -> bool:
            return "free: cpu 0, pods 0" in (await tasks("offers"))[1]

        await until(has_reported, 60.0)
        assert tasks.phase("waits") == "Waiting"
        assert (await tasks("kill", "long-0", "--watch"))[0] == 0
        await tasks.until("waits", "Running")
        await tasks.until("huge", "Refused")
        await tasks("kill", "--all", "--watch")
        code, out, _ = await tasks("watch")
        assert code == 1
        assert out.splitlines()[-1] == "5 killed, 1 refused"
        assert (await tasks("forget", "--ended"))[1] == "6 to be forgotten\n"

        for name in (*(f"long-{number}" for number in range(4)), "waits", "huge"):
            await tasks.until(name, "")
        assert (await tasks("list"))[1] == "no tasks\n"


async def test_second_run_is_rejected_with_one_line(tasks: Commands, tmp_path: Path) -> None:
    async with tasks.working() as first:

        async def held() -> bool:
            with RequestQueue(tmp_path / "tasks.db", create=True) as box:
                return box.holder() != ""

        await until(held, 60.0)
        code, out, err = await tasks("run", *tasks.flags)
        assert (code, out) == (1, "")
        assert err.startswith(f"pyscheduler: tasks.db is in use by process {first.pid} on ")
        assert len(err.splitlines()) == 1


def lose_state(folder: Path) -> None:
    for file in folder.glob("tasks.db*"):
        file.unlink()


async def test_orphans_of_a_lost_state_are_adopted_or_released(tasks: Commands, tmp_path: Path) -> None:
    seconds = {"pyscheduler.io/run-seconds": "30"}  # so that none ends while the commands run
    (tmp_path / "many.jsonl").write_text(lines(*({"id": f"t-{i}", "annotations": seconds} for i in range(3))))
    await tasks("submit", "--file", "many.jsonl")
    async with tasks.working() as running:
        await tasks.until("t-2", "Running")
        assert (await tasks("orphans", "list", *tasks.flags[:2]))[1] == f"0 orphans in namespace {tasks.namespace}\n"
        elsewhere = await tasks("orphans", "release", "--all", *tasks.flags[:4], "--state", "nowhere.db")
        assert (elsewhere[0], "with another state than nowhere.db" in elsewhere[2]) == (1, True)
        running.terminate()
        await running.wait()
    wrong = await tasks("orphans", "release", "--all", *tasks.flags[:2], "-n", "default")
    assert (wrong[0], "is the state of another backend" in wrong[2]) == (1, True)
    lose_state(tmp_path)
    code, out, err = await tasks("orphans", "list", *tasks.flags[:4])
    assert (code, out.splitlines()[-1]) == (0, f"3 orphans in namespace {tasks.namespace}"), err
    names = sorted(line.split()[0] for line in out.splitlines()[:-1])
    assert (await tasks("orphans", "adopt", names[0], *tasks.flags[:4]))[1].startswith("1 to be adopted; not running")
    assert (await tasks("orphans", "release", *names[1:], "--delete", *tasks.flags[:4]))[
        1
    ] == "2 released and deleted\n"
    code, out, err = await tasks("run", *tasks.flags, "--once")
    assert (code, out) == (0, "t-0 Succeeded\n"), err


async def test_killed_run_continues_from_its_state(tasks: Commands, tmp_path: Path) -> None:
    seconds = {"pyscheduler.io/run-seconds": "10"}  # so that none ends before it is killed
    (tmp_path / "many.jsonl").write_text(lines(*({"id": f"t-{i}", "annotations": seconds} for i in range(5))))
    await tasks("submit", "--file", "many.jsonl")
    async with tasks.working() as running:
        await tasks.until("t-4", "Running")
        running.kill()
    code, out, err = await tasks("run", *tasks.flags, "--once", "--output", "json")
    assert code == 0, err
    updates = [json.loads(line) for line in out.splitlines()]
    assert {update["spec"]["id"] for update in updates if update["phase"] == "Succeeded"} == {
        f"t-{i}" for i in range(5)
    }
    assert {update.get("attempt", 1) for update in updates} == {1}
