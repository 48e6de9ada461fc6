"""The kernel's books, read for the one process whose story is known here: this one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import pytest

from bench import proc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
HUNDREDTH = 0.01


def test_cpu_time_is_user_and_system_together() -> None:
    before, read, after = time.process_time(), proc.cpu_seconds(os.getpid()), time.process_time()

    assert before <= read <= after


def test_a_process_that_is_not_there_has_used_nothing_that_could_be_told() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        proc.cpu_seconds(2**22)  # above the kernel's largest


def test_a_process_was_started_before_a_thread_of_it_used_its_cpu_time() -> None:
    assert proc.now() - proc.started_at(os.getpid()) >= time.thread_time() - 2 * HUNDREDTH


def test_processes_that_were_started_are_known_until_they_are_waited_for() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        assert started.pid in proc.children()
    assert started.pid not in proc.children()


def test_peak_memory_is_in_bytes() -> None:
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert proc.peak_memory(os.getpid()) == pytest.approx(kibibytes * 1024, rel=0.05)


def test_the_machine_was_at_least_as_busy_as_this_process() -> None:
    assert proc.busy_seconds() >= proc.cpu_seconds(os.getpid())
