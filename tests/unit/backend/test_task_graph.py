"""The example of a graph of tasks after a restart of its platform."""

from __future__ import annotations

import asyncio
import importlib

import pytest

from tests.docs.pages import EXAMPLES
from tests.properties.task_cluster import Fate
from tests.unit.backend.test_backend import BackendFixture, on_virtual_time, task

GRAPH: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("b",), "bad": ("a",), "never": ("bad",)}


def test_graph_resumes_after_the_steps_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    example = importlib.import_module("task_graph")
    steps = {step: task(step) for step in GRAPH}
    first_steps = {"a": (), "b": ("a",)}

    @on_virtual_time
    async def scenario() -> None:
        fixture = BackendFixture(bad=Fate.FAIL)
        async with fixture.backend() as backend:
            await example.run_graph(backend, first_steps, steps)
            await backend.wait_until_settled()
        async with fixture.backend() as backend, asyncio.timeout(600.0):
            phases = await example.run_graph(backend, GRAPH, steps)
        assert phases == {"a": "Succeeded", "b": "Succeeded", "c": "Succeeded", "bad": "Failed", "never": "Skipped"}
        assert fixture.cluster.created == {"a": 1, "b": 1, "c": 1, "bad": 1}

    scenario()
