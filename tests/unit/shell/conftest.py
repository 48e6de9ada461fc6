"""Fixtures: those of the client, and a fake extender."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.kube.fixtures import api, clock, connection, kubeconfig

from .fake_extender import FakeExtender

__all__ = ["api", "clock", "connection", "extender", "kubeconfig"]


@pytest.fixture
async def extender() -> AsyncIterator[FakeExtender]:
    extender = FakeExtender()
    await extender.start()
    yield extender
    await extender.stop()
