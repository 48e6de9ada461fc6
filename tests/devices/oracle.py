"""The allocator command: kube-scheduler's own allocator as a child process."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from tests.controlplane.build import MODULE, ToolchainMissing, build_progress, run_go_build

SOURCES = MODULE / "cmd" / "allocator"
"""A Go module of its own: its Kubernetes version is that of the allocator, not of the control plane."""
AHEAD = 8
"""Documents that are sent before the result of the first is read."""

Document = dict[str, Any]
Result = dict[str, Any]


class AllocatorFailed(Exception):
    """The command ended without a result."""


def program() -> Path:
    """Return the command, built if it is missing. BuildError, or ToolchainMissing without Go, if it cannot be built."""
    path = _cache_folder() / "allocator"
    if os.access(path, os.X_OK):
        return path
    go = shutil.which("go")
    if not go:
        raise ToolchainMissing("no Go toolchain on the PATH: install Go 1.26 or newer (https://go.dev/dl)")
    progress = build_progress()
    progress.write_line("building the allocator command, about 2 minutes the first time")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".allocator.{os.getpid()}")
    command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(unfinished), "."]
    run_go_build(command, SOURCES, progress)
    unfinished.replace(path)
    return path


def _cache_folder() -> Path:
    digest = hashlib.sha256()
    for path in (SOURCES / "go.mod", SOURCES / "go.sum", *sorted(SOURCES.glob("*.go"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pyscheduler" / "controlplane" / f"allocator-{digest.hexdigest()[:16]}"


class Allocators:
    """One child process; results come in the order of the documents."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        """Read the pipe continuously, so that neither process blocks on writing; end with an empty line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def results(self, documents: Iterable[Document]) -> Iterator[tuple[Document, Result]]:
        """Yield each document with its result. AllocatorFailed if the command ends."""
        pending: deque[Document] = deque()
        for document in documents:
            self._send(document)
            pending.append(document)
            if len(pending) > AHEAD:
                yield pending.popleft(), self._receive()
        while pending:
            yield pending.popleft(), self._receive()

    def _send(self, document: Document) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AllocatorFailed(f"the allocator ended with exit code {self._process.wait()}") from None

    def _receive(self) -> Result:
        line = self._lines.get()
        if not line:
            raise AllocatorFailed(f"the allocator ended with exit code {self._process.wait()}")
        return dict(json.loads(line))
