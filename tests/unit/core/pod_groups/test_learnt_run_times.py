"""Learnt run times: which owners are runs of one workload, and how much is remembered."""

from __future__ import annotations

import pytest

from pyscheduler.api.pod import Pod
from pyscheduler.core.pod_groups.learnt_run_times import MOST_WORKLOADS, LearntRunTimes, workload_of
from pyscheduler.testing.builders import PodBuilder, pod


def of(owner: str, name: str = "p", kind: str = "Job") -> Pod:
    built = pod(name)
    meta = {"ownerReferences": [{"kind": kind, "name": owner, "uid": owner, "controller": True}]}
    return PodBuilder({**built.manifest, "metadata": {**built.manifest["metadata"], **meta}}).build()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("report-28391234", "report"),
        ("train-x7k2p", "train"),
        ("nightly-28391234-0", "nightly"),
        ("etl-2024-10-11", "etl"),
        ("job-train", "job-train"),
        ("12345", "12345"),
        ("a-b", "a-b"),
    ],
)
def test_endings_of_generated_names_are_left_out(owner: str, name: str) -> None:
    workload = workload_of(of(owner))
    assert workload is not None
    assert workload.name == name


def test_kinds_are_different_workloads() -> None:
    assert workload_of(of("a-1")) == workload_of(of("a-2"))
    assert workload_of(of("a-1")) != workload_of(of("a-1", kind="PyTorchJob"))


def test_pod_counts_once_it_has_succeeded_whichever_is_known_first() -> None:
    times, first = LearntRunTimes(), of("a-1")
    times.ended(first, 10.0)
    assert times.seconds(of("a-2")) is None
    times.succeeded(first)
    times.succeeded(first)
    assert times.seconds(of("a-2")) == 10.0


def test_longest_pod_of_a_run_counts() -> None:
    times = LearntRunTimes()
    for name, seconds in (("x", 30.0), ("y", 20.0)):
        times.ended(of("a-1", name), seconds)
        times.succeeded(of("a-1", name))
    assert times.seconds(of("a-2")) == 30.0


def test_number_of_workloads_is_bounded() -> None:
    times = LearntRunTimes()
    for i in range(MOST_WORKLOADS + 1):
        ended = of(f"w{i}x", f"p{i}")
        times.ended(ended, 1.0)
        times.succeeded(ended)
    assert times.seconds(of("w0x")) is None
    assert times.seconds(of("w1x")) == 1.0
