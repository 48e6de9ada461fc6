"""Writing of files with credentials: kubeconfigs, private keys, snapshots."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path`; the file is readable by its owner only, already before the first byte is written.

    The file is replaced when all is written: after a full disk or an abrupt end, its previous content is still there.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a device or a pipe
        return
    target = path.resolve()  # a link stays a link
    descriptor, temporary = mkstemp(prefix=f".{target.name}.", dir=target.parent)  # its mode is 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
