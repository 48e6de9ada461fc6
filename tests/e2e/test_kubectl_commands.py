"""The kubectl commands of docs/embedded.md have the same output on the embedded and the real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import rows
from tests.e2e.jobs import crew
from tests.e2e.kubectl_commands import commands, outcome, result
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler

PAGE = "docs/embedded.md"


@pytest.mark.asyncio(loop_scope="session")
async def test_each_command_has_the_output_of_the_table(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    async with crew(control_plane, namespace), scheduler(control_plane, Configured("default-scheduler"), tmp_path):
        different = {}
        for command in commands():
            if command.embedded_only and control_plane.embedded is None:
                continue
            failed, output = await outcome(control_plane, namespace, command)
            if (failed, output) != (command.fails, command.output):
                different[command.words] = output
    assert different == {}


def test_page_lists_each_command_once_with_its_result() -> None:
    expected = {f"`{each.words}`": f"`{result(each)}`" for each in commands()}
    assert {row[0]: row[1] for row in rows(PAGE, "kubectl")} == expected
    assert len(expected) >= 40
