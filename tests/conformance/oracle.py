"""The real kube-scheduler's framework as a process that evaluates documents; tests/controlplane builds it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from tests.conformance.generator.generated_cluster import Manifest
from tests.controlplane.build import binaries

PROGRAM = "oracle"


class OracleFailed(Exception):
    """The process ended without a result."""


def program() -> Path:
    """Return the built program. Raises BuildError, or ToolchainMissing without Go."""
    return binaries([PROGRAM]) / PROGRAM


def is_skipped(answers: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the oracle did not evaluate the document within its deadline."""
    return any(answer.get("skipped") for answer in answers)


def panic(answer: Mapping[str, Any]) -> str:
    """Return the text with which kube-scheduler panicked for a pod or a document; "" if it did not."""
    text = str(answer.get("error") or "")
    return text if text.startswith("panic: ") else ""


class Oracle:
    """One oracle process. Documents may be sent ahead; results come in the order of the documents."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._owed: deque[Manifest] = deque()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Read the pipe continuously, so that neither process blocks on writing; end with an empty line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, document: Manifest) -> None:
        """Send a document without waiting for its results."""
        assert self._process.stdin is not None
        self._owed.append(document)
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise OracleFailed(f"the oracle ended with exit code {self._process.wait()}") from None

    def receive(self) -> list[Any]:
        """Return the results of the oldest pending document: one per pod, or a single one if it was rejected."""
        document = self._owed.popleft()
        wanted = 1 if "sequence" in document else len(document["pods"])
        answers: list[Any] = []
        while len(answers) < wanted:
            line = self._lines.get()
            if not line:
                raise OracleFailed(f"the oracle ended with exit code {self._process.wait()}")
            answers.append(json.loads(line))
            if "error" in answers[-1] and "pod" not in answers[-1]:
                break
        return answers

    def evaluate(self, document: Manifest) -> list[Any]:
        """Send a document and return its results."""
        self.send(document)
        return self.receive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
