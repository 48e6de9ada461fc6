"""Commands import only the modules they need, so that the scheduler starts fast."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pyscheduler.cli.commands import HELP

SLOW = (
    *("aiohttp", "cronsim", "cryptography", "jsonpatch", "jsonschema", "kopf", "kubernetes_asyncio"),
    *("prometheus_client", "pydantic", "rich", "pyscheduler.embedded", "hypothesis", "pyscheduler.cel"),
)
"""Libraries and packages that a start of the scheduler does not need."""


def imported(code: str) -> set[str]:
    """Return the modules that a new Python process has imported after running the code."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_run_imports_no_slow_library() -> None:
    assert imported("import pyscheduler.cli.run").isdisjoint((*SLOW, "pyscheduler.shell.election"))


def test_construction_of_the_default_profile_imports_no_slow_library() -> None:
    construct = (
        "import pyscheduler.cli.run\nfrom pyscheduler.config.build import build_profiles\n"
        "from pyscheduler.config.load import default\nfrom pyscheduler.core.framework.handle import empty_handle\n"
        "build_profiles(default(), empty_handle())"
    )
    assert imported(construct).isdisjoint((*SLOW, "importlib.metadata"))


def test_entry_points_are_read_only_for_plugins_of_other_distributions() -> None:
    in_tree = "from pyscheduler.config.load import default\ndefault()"
    external = f"{in_tree}.registry['Gang']"
    modules = {"importlib.metadata", "pyscheduler_plugins"}
    assert modules.isdisjoint(imported(f"import pyscheduler.cli.run\n{in_tree}"))
    assert modules <= imported(external)


def test_leader_election_imports_no_slow_library() -> None:
    assert imported("import pyscheduler.cli.run, pyscheduler.shell.election").isdisjoint(SLOW)


def test_help_imports_no_command() -> None:
    modules = imported(
        "import pyscheduler.cli.program\ntry: pyscheduler.cli.program.app(['--help'])\nexcept SystemExit: pass"
    )
    assert modules.isdisjoint((*SLOW, "numpy", "aiohttp", "pyscheduler.api"))


@pytest.mark.parametrize("name", HELP)
def test_help_lines_are_equal_in_both_helps(name: str) -> None:
    text = getattr(import_module(f"pyscheduler.cli.{name}"), name).help
    assert text.strip().splitlines()[0] == HELP[name]


def test_file_in_the_current_directory_does_not_shadow_an_imported_module(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('not the installed one')")
    command = [sys.executable, "-m", "pyscheduler", "plugins", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
