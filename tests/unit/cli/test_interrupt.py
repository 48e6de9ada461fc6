"""Ctrl-C ends a command with exit code 130 and without a traceback, whatever the process is doing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyscheduler.cli import program

INTERRUPTED = """
import atexit, signal, sys

def interrupt(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.endswith({file!r}) and code.co_name == {function!r}:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

def end():
    pass

atexit.register(end)
signal.signal(signal.SIGINT, signal.{handler})
sys.argv = ["pyscheduler", *{args!r}]
sys.setprofile(interrupt)
{start}
"""
COMMAND = """
from pyscheduler.cli import main
main()
"""
CONTROLLERS = """
import runpy
runpy.run_module("pyscheduler.controllers", run_name="__main__")
"""
IMPORTED_FIRST = """
import __future__, os, signal, sys
sys.path[:0] = {path!r}
before = set(sys.modules)
import {program}
print(*sorted(set(sys.modules) - before))
"""
MISSING = ["config", "validate", "missing.yaml"]


def run(
    file: str, function: str, args: list[str], handler: str = "default_int_handler", start: str = COMMAND
) -> tuple[int, str]:
    """Run a program that gets SIGINT when it calls a function of a file; return exit code and stderr."""
    code = INTERRUPTED.format(file=file, function=function, args=args, handler=handler, start=start)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize(
    ("file", "function", "args"),
    [
        pytest.param("pyscheduler/interrupt.py", "<module>", MISSING, id="first import"),
        pytest.param("pyscheduler/interrupt.py", "exit_at_once", MISSING, id="before the signal handler is set"),
        pytest.param("click/core.py", "<module>", MISSING, id="start"),
        pytest.param("cli/config.py", "<module>", MISSING, id="import of the command"),
        pytest.param("cli/config.py", "validate", MISSING, id="command"),
        pytest.param("cli/problems.py", "<module>", ["run", "--config", "missing.yaml"], id="import for a report"),
        pytest.param("cli/problems.py", "describe", MISSING, id="report of a failure"),
        pytest.param("click/exceptions.py", "show", ["no-such-command"], id="report of wrong usage"),
        pytest.param("<string>", "end", ["plugins", "list"], id="exit"),
    ],
)
def test_ctrl_c_exits_with_130_and_prints_nothing(file: str, function: str, args: list[str]) -> None:
    assert run(file, function, args) == (130, "")


@pytest.mark.parametrize(
    ("file", "function"),
    [
        pytest.param("pyscheduler/interrupt.py", "<module>", id="first import"),
        pytest.param("kopf/__init__.py", "<module>", id="import of libraries"),
        pytest.param("argparse.py", "parse_args", id="arguments"),
        pytest.param("asyncio/runners.py", "run", id="start of the event loop"),
    ],
)
def test_ctrl_c_ends_the_controllers_with_130_and_prints_nothing(file: str, function: str) -> None:
    assert run(file, function, ["--kubeconfig", "missing"], start=CONTROLLERS) == (130, "")


def test_ctrl_c_is_ignored_in_the_background_of_a_shell() -> None:
    code, err = run("cli/problems.py", "describe", MISSING, handler="SIG_IGN")
    assert (code, err.count("\n")) == (1, 0)
    assert err.startswith("pyscheduler: missing.yaml: cannot be read")


def test_ctrl_c_during_an_import_that_converts_it_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before Python 3.12, an exception in `__set_name__`, such as KeyboardInterrupt during an import, was wrapped in a
    RuntimeError.
    """

    def main(**_: object) -> int:
        raise RuntimeError("Error calling __set_name__ on 'cached_property' instance") from KeyboardInterrupt()

    monkeypatch.setattr(program.app, "main", main)
    with pytest.raises(SystemExit) as ended:
        program.run()
    assert (ended.value.code, capsys.readouterr().err) == (130, "")


@pytest.mark.parametrize("program", ["pyscheduler.cli", "pyscheduler.controllers"])
def test_nothing_is_imported_before_ctrl_c_is_handled(program: str) -> None:
    """The time before that is the interpreter's own: each further import would add to it."""
    code = IMPORTED_FIRST.format(path=sys.path, program=program)  # without site, which imports modules of its own
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pyscheduler", program]
