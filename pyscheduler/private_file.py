"""Writes files that hold credentials: a kubeconfig, a private key."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path`, readable by its owner only, before the first byte of it and whatever was there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # The mode given to open counts for a new file only; a device or a pipe keeps its own.
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
        file.write(content)
