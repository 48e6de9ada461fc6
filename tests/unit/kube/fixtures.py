"""Fixtures: a fake API server, and a connection to it on virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyscheduler.kube.connection import Connection, ConnectionOptions, connect
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.virtual import VirtualClock


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    api = FakeApi()
    await api.start()
    yield api
    await api.stop()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    return write_kubeconfig(tmp_path, api.url)


@pytest.fixture
async def connection(kubeconfig: Path, clock: VirtualClock) -> AsyncIterator[Connection]:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1), clock)
    yield connection
    await connection.close()


def write_kubeconfig(folder: Path, server: str, *, cluster: str = "", user: str = "", context: str = "dev") -> Path:
    """Write a kubeconfig with one cluster; `cluster` and `user` are additional lines."""
    file = folder / "kubeconfig"
    file.write_text(
        f"current-context: {context}\n"
        "contexts: [{name: dev, context: {cluster: here, user: me}}]\n"
        f"clusters:\n- name: here\n  cluster:\n    server: {server}\n{_indented(cluster)}"
        f"users:\n- name: me\n  user:\n{_indented(user or 'username: tester')}"
    )
    return file


def _indented(lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines.splitlines())
