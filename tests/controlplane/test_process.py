"""Child processes: a death is told with the end of the log, and nothing outlives a stop."""

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
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""
PARENT = """
import pathlib, signal, sys
from tests.controlplane.process import Process
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
command = [sys.executable, "-c", "import time; time.sleep(600)"]
print(Process("child", command, pathlib.Path(sys.argv[1])).pid, flush=True)
signal.pause()
"""


def python(code: str, folder: Path) -> Process:
    """Runs a Python program with its log in `folder`."""
    return Process("program", [sys.executable, "-c", code], folder / "log")


async def never() -> bool:
    return False


def gone(pid: int) -> bool:
    """Whether there is no such process within the deadline, or only its unclaimed remains."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if shown.stdout.strip()[:1] in {"", "Z"}:
            return True
    return False


async def test_a_process_that_dies_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = python("print('cannot bind: the port is taken'); raise SystemExit(3)", tmp_path)

    with pytest.raises(ProcessFailed, match=r"program ended with code 3; its log ends:\ncannot bind"):
        await process.until(never, time.monotonic() + SECONDS)
    await process.stop()


async def test_a_process_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    process = python("import time; time.sleep(600)", tmp_path)

    with pytest.raises(ProcessFailed, match="program was not ready in time"):
        await process.until(never, time.monotonic())
    await process.stop()

    assert not process.alive


async def test_a_stop_ends_the_children_too(tmp_path: Path) -> None:
    process = python(FAMILY, tmp_path)

    async def child_is_known() -> bool:
        return bool(process.tail())

    await process.until(child_is_known, time.monotonic() + SECONDS)
    child = int(process.tail())
    await process.stop()

    assert gone(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_does_not_outlive_a_killed_parent(ending: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(ending)

    assert gone(child)


def test_free_ports_are_all_different() -> None:
    assert len(set(free_ports(20))) == 20


def test_the_folder_of_a_run_that_was_cut_off_is_swept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "_parent", lambda: tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    abandoned = tmp_path / f"{workspace.PREFIX}{gone.pid}-abc"
    abandoned.mkdir()

    mine = workspace.create()
    workspace.create()

    assert mine.is_dir()
    assert not abandoned.exists()
