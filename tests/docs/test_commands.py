"""Commands in the pages work: those that need only Python are run, of the others flags and files are checked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pyscheduler.cli.program import run as main
from tests.docs.pages import PAGES, ROOT, commands
from tools import terminal_picture

COMMANDS = [(page, command) for page in PAGES for command in commands(page)]
EXTERNAL_PROGRAMS = ("docker", "kubectl", "helm", "pip", "pipx", "uvx", "source", "$EDITOR", ".")
"""Programs that are not available in tests."""
EXPECTED_FAILURES = {"--timeout 5": "node(s) would have too little headroom"}
"""Commands that exit 1, with the message that they print."""


def commands_starting_with(*starts: str) -> list[str]:
    return [command for _, command in COMMANDS if command.startswith(starts)]


def test_every_command_starts_with_an_expected_program() -> None:
    expected = ("pyscheduler ", "make ", "cd ", *(f"{word} " for word in EXTERNAL_PROGRAMS))
    assert [command for _, command in COMMANDS if not command.startswith(expected)] == []


@pytest.mark.parametrize("command", commands_starting_with("make "))
def test_make_target_exists(command: str) -> None:
    _, target = command.split()
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize(
    "command",
    commands_starting_with(
        "pyscheduler config ", "pyscheduler plugins ", "pyscheduler evaluate ", "pyscheduler simulate "
    ),
)
def test_read_only_command_succeeds(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder_of(command))
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", commands_starting_with("pyscheduler run ", "pyscheduler up "))
def test_flags_and_files_exist(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, name, *words = shlex.split(command)
    monkeypatch.setattr(sys, "argv", ["pyscheduler", name, "--help"])
    with pytest.raises(SystemExit):
        main()
    help_text = capsys.readouterr().out
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"{word}\b", help_text), f"{name} has no {word}"
        elif "/" in word and not word.startswith("~"):
            assert (folder_of(command) / word).exists(), word


CLUSTERS = [
    "pyscheduler up --once --nodes 4 --apply manifests/examples",
    *commands_starting_with("pyscheduler up --once "),
]
"""The first is the command of `make run`."""


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Processes of all commands, started at once because they mostly wait."""
    processes = {command: start(command) for command in CLUSTERS}
    yield processes
    for process in processes.values():
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
def test_cluster_starts_and_places_the_pods(command: str, clusters: dict[str, subprocess.Popen[str]]) -> None:
    out, err = clusters[command].communicate(timeout=90)
    reason = next((reason for option, reason in EXPECTED_FAILURES.items() if option in command), "")
    assert clusters[command].returncode == (1 if reason else 0), err
    assert "What runs where" in out
    assert reason in out
    assert "Traceback" not in out + err
    if command == CLUSTERS[0]:
        shown, drawn = ([mask(line) for line in lines] for lines in (out.splitlines(), picture_lines()))
        assert drawn[0] == mask(terminal_picture.PROMPT)
        assert set(drawn[1:]) <= set(shown), "the picture is out of date: make docs-picture"


def picture_lines() -> list[str]:
    """Return the lines of the README's picture."""
    root = ElementTree.parse(terminal_picture.PICTURE).getroot()
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def mask(line: str) -> str:
    """Return a line of the output without what depends on chance: ports, and the rows of the nodes."""
    line = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", line)
    return "a row of a node" if line.startswith(("│", "├", "┃", "┏", "┡", "└")) else line.strip()


def test_picture_is_drawn_from_the_command_of_make_run() -> None:
    assert CLUSTERS[0] == shlex.join(["pyscheduler", *terminal_picture.COMMAND])
    assert f"$ {commands('README.md')[0]}" == terminal_picture.PROMPT


def test_make_run_uses_the_first_command() -> None:
    assert CLUSTERS[0].replace("4", "$(NODES)") in (ROOT / "Makefile").read_text()


def folder_of(command: str) -> Path:
    """Return the working directory of a command, after the `cd` commands before it."""
    for page, other in COMMANDS:
        if other == command:
            lines = commands(page)
            changes = [line for line in lines[: lines.index(command)] if line.startswith("cd ")]
            return ROOT / changes[-1].removeprefix("cd ") if changes else ROOT
    return ROOT
