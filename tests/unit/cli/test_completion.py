"""`pyscheduler completion`: the scripts complete commands and options."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pyscheduler.cli.completion import SHELLS
from pyscheduler.cli.program import app

COMPLETE = "import pyscheduler.cli.program\npyscheduler.cli.program.app(prog_name='pyscheduler')"


def completed(line: str) -> set[str]:
    """Return what bash offers for the last word of a line."""
    words = line.split(" ")
    environment = {
        "_PYSCHEDULER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-c", COMPLETE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    return {offer.partition(",")[2] for offer in done.stdout.splitlines()}


@pytest.mark.parametrize("shell", SHELLS)
def test_script_calls_the_program_for_this_shell(shell: str) -> None:
    result = CliRunner().invoke(app, ["completion", shell], prog_name="pyscheduler")
    assert result.exit_code == 0, result.output
    assert f"_PYSCHEDULER_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pyscheduler qu", {"queue", "queues"}),
        ("pyscheduler manifests second", {"second-scheduler"}),
        ("pyscheduler up --node-c", {"--node-cpu"}),
        ("pyscheduler --vers", {"--version"}),
    ],
)
def test_words_are_completed(line: str, expected: set[str]) -> None:
    assert completed(line) == expected


def test_unknown_shell_is_rejected() -> None:
    assert CliRunner().invoke(app, ["completion", "csh"]).exit_code == 2
