"""The real kubectl: installed, or built with the control plane."""

from __future__ import annotations

import asyncio
import shutil
import tempfile

import pytest

from tests.controlplane.build import binaries
from tests.e2e.plane import Plane


async def kubectl(plane: Plane, *words: str) -> str:
    """Run a command, which must succeed; return its output."""
    code, output = await run_kubectl(plane, words)
    assert code == 0, output
    return output


async def kubectl_error(plane: Plane, *words: str) -> str:
    """Run a command, which must fail; return its output."""
    code, output = await run_kubectl(plane, words)
    assert code != 0, output
    return output


async def run_kubectl(plane: Plane, words: tuple[str, ...]) -> tuple[int | None, str]:
    """Run a command; return its exit code and its output.

    It starts without cached discovery. The API server's list of OpenAPI documents has no ETag but the current second as
    Last-Modified, so a kubectl that cached it less than a second ago does not find a kind that has been added since.
    """
    with tempfile.TemporaryDirectory() as cache:
        process = await asyncio.create_subprocess_exec(
            await _program(plane),
            "--kubeconfig",
            str(plane.kubeconfig),
            "--cache-dir",
            cache,
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    return process.returncode, output.decode()


async def _program(plane: Plane) -> str:
    installed = shutil.which("kubectl")
    if installed is not None:
        return installed
    if plane.real is None:
        pytest.skip("kubectl is not installed")
    return str(await asyncio.to_thread(binaries, ["kubectl"]) / "kubectl")
