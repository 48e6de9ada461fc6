"""Fixtures of the benchmark's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyscheduler.embedded.server import ApiServer
from tests.e2e.client import ApiClient
from tests.e2e.plane import EMBEDDED, Plane


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    """An API server in this process, without other components."""
    server = ApiServer()
    await server.start()
    try:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        async with ApiClient(kubeconfig) as api:
            yield Plane(EMBEDDED, kubeconfig, api)
    finally:
        await server.stop()
