"""The figures of docs/simulate.md are the output of the command, and its keys are those of the JSON output."""

from __future__ import annotations

import json
import re

from click.testing import CliRunner

from pyscheduler.cli.program import app
from pyscheduler.data import CONFIGURATIONS
from tests.docs.pages import blocks, rows

PAGE = "docs/simulate.md"
FILES = [str(CONFIGURATIONS / name) for name in ("scenarios/two-teams.yaml", "default.yaml", "batch.yaml")]


def simulated(*flags: str) -> str:
    scenario, default, batch = FILES
    arguments = ["simulate", scenario, "--config", default, "--config", batch, *flags]
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, arguments).stdout


def test_rows_on_the_page_are_printed_by_the_command_in_this_order() -> None:
    shown = next(block.text for block in blocks(PAGE) if block.language == "text")
    printed = iter(simulated().splitlines())
    assert all(line in printed for line in shown.splitlines())


def test_keys_on_the_page_are_those_of_the_json_output() -> None:
    result = json.loads(simulated("-o", "json"))["results"][0]
    known = {*result, *result["queues"][0], *(f"pods.{key}" for key in result["pods"])}
    keys = {key for row in rows(PAGE, "The report") for key in re.findall(r"`([\w.]+)`", row[2])}
    assert keys <= known
    assert len(keys) > 9
