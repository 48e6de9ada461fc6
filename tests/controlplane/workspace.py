"""The temporary folder of one control plane: in memory where there is room, and swept up later if a run was cut off."""

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
    """Makes a folder that only its owner can read; the process id in its name tells later runs whose it was."""
    sweep()
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=_parent()))


def sweep() -> None:
    """Removes the folders of runs whose process is gone."""
    for parent in {_parent(), Path(tempfile.gettempdir())}:
        for folder in parent.glob(f"{PREFIX}*"):
            owner = re.match(rf"{PREFIX}(\d+)-", folder.name)
            if owner and not _lives(int(owner[1])):
                shutil.rmtree(folder, ignore_errors=True)


def _parent() -> Path:
    """etcd's file is written all the time: memory spares the disk, but containers often have only 64 MiB of it."""
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
