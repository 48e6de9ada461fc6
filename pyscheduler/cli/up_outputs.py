"""Files that `up` writes: the kubeconfig at the start, the snapshot at the end."""

from __future__ import annotations

import shlex
import shutil
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyscheduler.cli.problems import CommandProblem
from pyscheduler.embedded import Api
from pyscheduler.embedded.kubeconfig import embedded_server
from pyscheduler.embedded.snapshot import snapshot
from pyscheduler.private_file import write_private

_CONNECT_SECONDS: Final = 1.0


def check_kubeconfig(file: Path) -> None:
    """Raise CommandProblem if the file is in use: the kubeconfig of other clusters, or of an `up` that still runs."""
    try:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandProblem(f"--kubeconfig-out: {file} cannot be read: {reason}") from None
    if not text.strip():
        return
    server = embedded_server(text)
    if server is None:
        raise CommandProblem(
            f"--kubeconfig-out: {file} is not from `pyscheduler up`, and would be overwritten; name a new file"
        )
    if _accepts_connections(server):
        raise CommandProblem(
            f"--kubeconfig-out: {file} belongs to the cluster at {server}, which still runs; name another file"
        )


def _accepts_connections(url: str) -> bool:
    try:
        address = urlsplit(url)
        with socket.create_connection((address.hostname or "", address.port or 0), _CONNECT_SECONDS):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def copy_kubeconfig(source: Path, file: Path) -> None:
    """Copy the kubeconfig of the cluster. CommandProblem if the file cannot be written."""
    try:
        shutil.copyfile(source, file)
    except OSError as error:
        raise CommandProblem(
            f"--kubeconfig-out: {file}: {error.strerror or error}; name a file in a folder that you can write to"
        ) from None


def write_snapshot(api: Api, file: Path) -> None:
    """Write all objects, and print how to continue from them. CommandProblem if the file cannot be written."""
    try:
        write_private(file, snapshot(api))
    except OSError as error:
        raise CommandProblem(f"--snapshot: {file}: {error.strerror or error}") from None
    print(f"Snapshot written; continue from it: pyscheduler up --restore {shlex.quote(str(file))}")
