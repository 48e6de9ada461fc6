"""A command imports what it needs, and no more: a scheduler must not wait for libraries of other commands."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pyscheduler.cli.commands import HELP

SLOW = ("kopf", "kubernetes_asyncio", "prometheus_client", "pydantic", "rich", "pyscheduler.embedded", "hypothesis")


def imported(code: str) -> set[str]:
    """The modules that a fresh Python has after running the code."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_running_needs_none_of_the_slow_libraries() -> None:
    assert imported("import pyscheduler.cli.run").isdisjoint((*SLOW, "pyscheduler.shell.election"))


def test_a_configuration_that_names_no_plugin_from_outside_does_not_wait_for_what_finds_them() -> None:
    own, outside = (f"from pyscheduler.config.load import default\ndefault(){ask}" for ask in ("", ".registry['Gang']"))
    finder, theirs = "importlib.metadata", "pyscheduler_plugins"
    assert {finder, theirs}.isdisjoint(imported(f"import pyscheduler.cli.run\n{own}"))
    assert {finder, theirs} <= imported(outside)


def test_an_election_needs_none_of_the_slow_libraries() -> None:
    assert imported("import pyscheduler.cli.run, pyscheduler.shell.election").isdisjoint(SLOW)


def test_help_imports_no_command() -> None:
    modules = imported("import pyscheduler.cli\ntry: pyscheduler.cli.app(['--help'])\nexcept SystemExit: pass")
    assert modules.isdisjoint((*SLOW, "numpy", "aiohttp", "pyscheduler.api"))


@pytest.mark.parametrize("name", HELP)
def test_help_says_what_the_command_says_of_itself(name: str) -> None:
    text = getattr(import_module(f"pyscheduler.cli.{name}"), name).help
    assert text.strip().splitlines()[0] == HELP[name]


def test_a_file_of_the_current_directory_does_not_shadow_a_module_that_commands_import(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('not the installed one')")
    command = [sys.executable, "-m", "pyscheduler", "plugins", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
