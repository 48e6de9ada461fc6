"""Kubernetes' evaluation of device selectors as a process; its Go module is tests/controlplane/cmd/cel."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.cel.case import Case
from tests.controlplane.build import ToolchainMissing, build_progress, run_go_build

_MODULE = Path(__file__).parent.parent / "controlplane" / "cmd" / "cel"


def program() -> Path:
    """Return the program, which is built if its sources changed. BuildError if it cannot be built."""
    digest = hashlib.sha256()
    for path in sorted((*_MODULE.glob("*.go"), _MODULE / "go.mod", _MODULE / "go.sum")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = base / "pyscheduler" / "cel" / digest.hexdigest()[:16] / "cel"
    if not built.exists():
        _build(built)
    return built


def _build(built: Path) -> None:
    go = shutil.which("go")
    if not go:
        raise ToolchainMissing("no Go toolchain on the PATH: install Go 1.26 or newer (https://go.dev/dl)")
    progress = build_progress()
    progress.write_line("building the CEL oracle, about 3 minutes the first time")
    built.parent.mkdir(parents=True, exist_ok=True)
    unfinished = built.with_suffix(f".unfinished{os.getpid()}")
    command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(unfinished), "."]
    run_go_build(command, _MODULE, progress)
    unfinished.replace(built)


def evaluate(path: Path, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Yield the oracle's outcome of each case, in order. RuntimeError if it ends early."""
    lines = "".join(json.dumps({"expression": case.expression, "device": case.device}) + "\n" for case in cases)
    done = subprocess.run([path], input=lines, capture_output=True, text=True, check=False)
    outcomes = done.stdout.splitlines()
    if len(outcomes) != len(cases):
        raise RuntimeError(f"the oracle stopped at {cases[len(outcomes)]}: {done.stderr.strip()[-500:]}")
    for outcome in outcomes:
        yield json.loads(outcome)
