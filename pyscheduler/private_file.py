"""Writing of files with credentials: kubeconfigs, private keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path`. The file is readable by its owner only, already before the first byte is written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # The mode passed to open applies to new files only; a device or a pipe keeps its own mode.
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
        file.write(content)
