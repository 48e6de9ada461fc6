"""Temporary folder of one control plane: in memory if there is room, and removed by later runs after interruptions."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

PREFIX = "pyscheduler-controlplane-"
SHARED_MEMORY = Path("/dev/shm")
ROOM_BYTES = 2 * 2**30


def create() -> Path:
    """Create a folder readable by its owner only; the process id in its name identifies the run."""
    sweep()
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=_parent()))


def sweep() -> None:
    """Remove the folders of runs that have ended."""
    for parent in {_parent(), Path(tempfile.gettempdir())}:
        for folder in parent.glob(f"{PREFIX}*"):
            owner = re.match(rf"{PREFIX}(\d+)-", folder.name)
            if owner and not _lives(int(owner[1])):
                shutil.rmtree(folder, ignore_errors=True)


def _parent() -> Path:
    """Return /dev/shm if it has room, as etcd writes its file all the time; containers often have only 64 MiB there."""
    if (
        SHARED_MEMORY.is_dir()
        and os.access(SHARED_MEMORY, os.W_OK)
        and shutil.disk_usage(SHARED_MEMORY).free > ROOM_BYTES
    ):
        return SHARED_MEMORY
    return Path(tempfile.gettempdir())


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
