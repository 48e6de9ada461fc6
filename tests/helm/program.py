"""The real helm: the installed one, or built from its Go module and cached outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

_MODULE: Final = "helm.sh/helm/v3/cmd/helm@v3.22.0"
_FOLDER: Final = "helm-3.22.0"


def helm() -> str:
    """Return the path of helm. Skips the test without helm and Go, unless in CI."""
    installed = shutil.which("helm")
    if installed is not None:
        return installed
    program = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyscheduler" / _FOLDER / "helm"
    if not program.exists():
        _build(program.parent)
    return str(program)


def _build(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        if os.environ.get("CI"):
            pytest.fail("neither helm nor Go is installed")
        pytest.skip("neither helm nor Go is installed")
    environment = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
    command = [go, "install", "-trimpath", "-ldflags", "-s -w", _MODULE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
