"""Child processes: an unexpected end is reported with the log, and `stop` terminates the whole group."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.controlplane import workspace
from tests.controlplane.process import Process, ProcessFailed, free_ports

SECONDS = 20.0
WITH_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""
PARENT = """
import pathlib, signal, sys
from tests.controlplane.process import Process
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may have been started with SIGINT ignored
command = [sys.executable, "-c", "import time; time.sleep(600)"]
print(Process("child", command, pathlib.Path(sys.argv[1])).pid, flush=True)
signal.pause()
"""


def python(code: str, folder: Path) -> Process:
    """Run a Python program with its log in `folder`."""
    return Process("program", [sys.executable, "-c", code], folder / "log")


async def never() -> bool:
    return False


def has_ended(pid: int) -> bool:
    """Return True if the process ends within the deadline (zombies count as ended)."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            return True
        if fields.split()[0] == "Z":
            return True
    return False


async def test_process_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = python("print('cannot bind: address already in use'); raise SystemExit(3)", tmp_path)

    with pytest.raises(ProcessFailed, match=r"program ended with code 3; its log ends:\ncannot bind"):
        await process.until(never, time.monotonic() + SECONDS)
    await process.stop()


async def test_process_that_is_never_ready_times_out(tmp_path: Path) -> None:
    process = python("import time; time.sleep(600)", tmp_path)

    with pytest.raises(ProcessFailed, match="program was not ready in time"):
        await process.until(never, time.monotonic())
    await process.stop()

    assert not process.alive


async def test_stop_ends_child_processes_too(tmp_path: Path) -> None:
    process = python(WITH_CHILD, tmp_path)

    async def has_output() -> bool:
        return bool(process.tail())

    await process.until(has_output, time.monotonic() + SECONDS)
    child = int(process.tail())
    await process.stop()

    assert has_ended(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a child when its parent ends")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_child_does_not_outlive_a_killed_parent(ending: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(ending)

    assert has_ended(child)


def test_free_ports_are_all_different() -> None:
    assert len(set(free_ports(20))) == 20


def test_folder_of_an_interrupted_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "_parent", lambda: tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    abandoned = tmp_path / f"{workspace.PREFIX}{ended.pid}-abc"
    abandoned.mkdir()

    own = workspace.create()
    workspace.create()

    assert own.is_dir()
    assert not abandoned.exists()
