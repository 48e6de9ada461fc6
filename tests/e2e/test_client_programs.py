"""Clients that users have, as programs of their own: each has the same outcome on both API servers."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.controlplane.build import ToolchainMissing, binaries
from tests.e2e.plane import Plane

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
FOLDER = Path(__file__).with_name("programs")
SECONDS = 120.0


async def output(plane: Plane, *words: str) -> list[str]:
    """Run a program with the administrator's kubeconfig, which must succeed; return what it prints."""
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    printed, errors = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0, errors.decode()
    return printed.decode().splitlines()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            "with_kubernetes",
            [
                "pages 2 1",
                "patched c",
                "conflict 409 Conflict",
                "event DELETED sync-2",
                "scale None",
                "dynamic b",
                "applied ['a', 'own']",
            ],
        ),
        ("with_kubernetes_asyncio", ["event ADDED b", "event MODIFIED c", "event DELETED c"]),
        ("with_kr8s", ["labelled ['kr8s']", "patched c", "replicas 0", "exists False", "version v1"]),
        ("with_lightkube", ["applied ['a', 'own']", "patched c", "missing 404 NotFound", "left []"]),
        ("with_kopf", ["updated b c", "seen yes", "deleted True"]),
    ],
)
async def test_python_client(control_plane: Plane, namespace: str, program: str, expected: list[str]) -> None:
    assert await output(control_plane, sys.executable, str(FOLDER / f"{program}.py"), namespace) == expected


async def test_client_go(control_plane: Plane, namespace: str) -> None:
    try:
        folder = await asyncio.to_thread(binaries, ["clientgo"])
    except ToolchainMissing as error:
        pytest.skip(str(error))
    assert await output(control_plane, str(folder / "clientgo"), namespace) == [
        "informer added",
        "informer updated to c",
        "informer deleted",
        "dynamic informer go",
        "leads",
        "released",
    ]
