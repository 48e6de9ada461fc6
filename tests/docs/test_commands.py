"""Every command of the pages works: those that need nothing but Python are run, the others are checked for sense."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyscheduler.cli import main
from tests.docs.pages import PAGES, ROOT, commands

COMMANDS = [(page, command) for page in PAGES for command in commands(page)]
ELSEWHERE = ("docker", "kubectl", "$EDITOR", ".")
"""Programs that need what a test has not got."""
REFUSED = {"--timeout 5": "node(s) would have too little headroom"}
"""Commands that show a plugin at work: they exit 1, with the reason on the screen."""


def of(*starts: str) -> list[str]:
    return [command for _, command in COMMANDS if command.startswith(starts)]


def test_every_command_is_of_a_known_kind() -> None:
    known = ("pyscheduler ", "make ", "cd ", *(f"{word} " for word in ELSEWHERE))
    assert [command for _, command in COMMANDS if not command.startswith(known)] == []


@pytest.mark.parametrize("command", of("make "))
def test_make_knows_the_target(command: str) -> None:
    _, target = command.split()
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("command", of("pyscheduler config ", "pyscheduler plugins ", "pyscheduler evaluate "))
def test_commands_that_only_look_succeed(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder_of(command))
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", of("pyscheduler run ", "pyscheduler up "))
def test_options_and_files_are_there(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, name, *words = shlex.split(command)
    monkeypatch.setattr(sys, "argv", ["pyscheduler", name, "--help"])
    with pytest.raises(SystemExit):
        main()
    offered = capsys.readouterr().out
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"{word}\b", offered), f"{name} has no {word}"
        elif "/" in word and not word.startswith("~"):
            assert (folder_of(command) / word).exists(), word


CLUSTERS = ["pyscheduler up --once --nodes 4 --apply manifests/examples", *of("pyscheduler up --once ")]
"""The first is what `make run` does."""


@pytest.fixture(scope="module")
def started() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All of them, started at once because they mostly wait."""
    running = {command: start(command) for command in CLUSTERS}
    yield running
    for process in running.values():
        process.kill()
        process.communicate()


def start(command: str) -> subprocess.Popen[str]:
    program = Path(sys.executable).parent / "pyscheduler"
    environment = {**os.environ, "COLUMNS": "120"}
    return subprocess.Popen(
        [program, *shlex.split(command)[1:]],
        cwd=folder_of(command),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("command", CLUSTERS)
def test_clusters_start_place_the_pods_and_end(command: str, started: dict[str, subprocess.Popen[str]]) -> None:
    out, err = started[command].communicate(timeout=90)
    reason = next((reason for option, reason in REFUSED.items() if option in command), "")
    assert started[command].returncode == (1 if reason else 0), err
    assert "What runs where" in out
    assert reason in out
    assert "Traceback" not in out + err


def test_make_run_is_the_command_above() -> None:
    assert CLUSTERS[0].replace("4", "$(NODES)") in (ROOT / "Makefile").read_text()


def folder_of(command: str) -> Path:
    """Where the page has gone (`cd`) before the command."""
    for page, other in COMMANDS:
        if other == command:
            lines = commands(page)
            gone = [line for line in lines[: lines.index(command)] if line.startswith("cd ")]
            return ROOT / gone[-1].removeprefix("cd ") if gone else ROOT
    return ROOT
