"""The first signal ends a command's work in order, the second one ends the process at once with status 1."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from pyscheduler.cli.stop_signals import STOP_SIGNALS

STOPPED = """
import asyncio, signal
from pyscheduler.cli import options
from pyscheduler.cli.stop_signals import STOP_SIGNALS, until_signalled

# The tests may have been started by nohup, or in the background of a shell.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

async def work():
    try:
        signal.raise_signal(signal.{first})
        await asyncio.Event().wait()
    finally:
        print("releasing", flush=True)
        {during_release}
        await asyncio.sleep(0)
        print("released", flush=True)

options.run_async(until_signalled(work, (*STOP_SIGNALS, signal.SIGHUP)))
"""


def stop(first: signal.Signals, during_release: str) -> tuple[int, str]:
    """Run work that is stopped by a signal; return exit code and output."""
    code = STOPPED.format(first=first.name, during_release=during_release)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("first", [*STOP_SIGNALS, signal.SIGHUP])
def test_first_signal_lets_the_work_release_its_lease(first: signal.Signals) -> None:
    assert stop(first, "pass") == (0, "releasing\nreleased\n")


@pytest.mark.parametrize("first", STOP_SIGNALS)
@pytest.mark.parametrize("second", STOP_SIGNALS)
def test_second_signal_ends_the_process_with_status_1(first: signal.Signals, second: signal.Signals) -> None:
    waiting = f"signal.raise_signal(signal.{second.name}); await asyncio.sleep(20)"
    assert stop(first, waiting) == (1, "releasing\n")


def test_second_signal_ends_a_process_whose_release_blocks_the_loop() -> None:
    blocking = "signal.setitimer(signal.ITIMER_REAL, 20); signal.raise_signal(signal.SIGINT); signal.pause()"
    assert stop(signal.SIGTERM, blocking) == (1, "releasing\n")


def test_second_sighup_of_a_closed_terminal_does_not_interrupt_the_release() -> None:
    again = "signal.raise_signal(signal.SIGHUP); await asyncio.sleep(0.1)"
    assert stop(signal.SIGHUP, again) == (0, "releasing\nreleased\n")
