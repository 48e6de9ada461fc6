"""The real kubectl: installed, or built with the control plane."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from tests.controlplane.build import binaries
from tests.e2e.plane import Plane


async def kubectl(plane: Plane, *words: str) -> str:
    """Run a command, which must succeed; return its output."""
    process = await asyncio.create_subprocess_exec(
        await _program(plane),
        "--kubeconfig",
        str(plane.kubeconfig),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def _program(plane: Plane) -> str:
    installed = shutil.which("kubectl")
    if installed is not None:
        return installed
    if plane.real is None:
        pytest.skip("kubectl is not installed")
    return str(await asyncio.to_thread(binaries, ["kubectl"]) / "kubectl")
