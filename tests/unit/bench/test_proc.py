"""Process statistics, checked against this process."""

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


def test_cpu_time_is_user_and_system_time() -> None:
    before, read, after = time.process_time(), proc.cpu_seconds(os.getpid()), time.process_time()

    assert before <= read <= after


def test_cpu_time_of_a_missing_process_raises() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        proc.cpu_seconds(2**22)  # above the kernel's largest


def test_start_time_is_before_the_cpu_time_of_a_thread() -> None:
    assert proc.now() - proc.started_at(os.getpid()) >= time.thread_time() - 2 * HUNDREDTH


def test_children_are_listed_until_they_are_waited_for() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        assert started.pid in proc.children()
    assert started.pid not in proc.children()


def test_peak_memory_is_in_bytes() -> None:
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert proc.peak_memory(os.getpid()) == pytest.approx(kibibytes * 1024, rel=0.05)


def test_machine_is_at_least_as_busy_as_this_process() -> None:
    assert proc.busy_seconds() >= proc.cpu_seconds(os.getpid())
