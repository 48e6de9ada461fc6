"""Text of the FailedScheduling message, which alerts match literally."""

from __future__ import annotations

from collections import Counter

import pytest

from pyscheduler.api import Code, Diagnosis, Status

CPU, MEMORY, PODS = "Insufficient cpu", "Insufficient memory", "Too many pods"


def unschedulable(*reasons: str, plugin: str = "NodeResourcesFit") -> Status:
    return Status(Code.UNSCHEDULABLE, plugin, reasons)


@pytest.mark.parametrize(
    ("diagnosis", "message"),
    [
        pytest.param(Diagnosis(0), "0/0 nodes are available:", id="no nodes"),
        pytest.param(
            Diagnosis(3, Counter({unschedulable(CPU): 2, unschedulable(MEMORY): 1})),
            f"0/3 nodes are available: 1 {MEMORY}, 2 {CPU}.",
            id="sorted with the counts",
        ),
        pytest.param(
            Diagnosis(13, Counter({unschedulable(CPU): 2, unschedulable(MEMORY): 10})),
            f"0/13 nodes are available: 10 {MEMORY}, 2 {CPU}.",
            id="sorted as text: 10 before 2",
        ),
        pytest.param(
            Diagnosis(3, Counter({unschedulable(CPU, MEMORY): 2, unschedulable(CPU): 1})),
            f"0/3 nodes are available: 2 {MEMORY}, 3 {CPU}.",
            id="all reasons of a node are counted",
        ),
        pytest.param(
            Diagnosis(2, Counter({unschedulable(PODS, plugin="A"): 1, unschedulable(PODS, plugin="B"): 1})),
            f"0/2 nodes are available: 2 {PODS}.",
            id="equal reasons of two plugins are merged",
        ),
        pytest.param(
            Diagnosis(2, Counter({unschedulable(CPU): 2}), post_filter_message="preemption: no."),
            f"0/2 nodes are available: 2 {CPU}. preemption: no.",
            id="with the PostFilter message",
        ),
        pytest.param(
            Diagnosis(2, Counter({unschedulable(CPU): 2}), post_filter_message="unsupported count mode "),
            f"0/2 nodes are available: 2 {CPU}. unsupported count mode ",
            id="with a PostFilter message that ends with the empty value of a field",
        ),
        pytest.param(
            Diagnosis(2, Counter({unschedulable(CPU): 2}), pre_filter=unschedulable("no such claim")),
            "0/2 nodes are available: no such claim.",
            id="PreFilter status replaces node statuses",
        ),
        pytest.param(
            Diagnosis(2, pre_filter=unschedulable()), "0/2 nodes are available:", id="PreFilter without a reason"
        ),
    ],
)
def test_failed_scheduling_message(diagnosis: Diagnosis, message: str) -> None:
    assert diagnosis.message == message
    assert message.startswith(diagnosis.filter_message)


def test_names_of_codes_are_those_of_kube_scheduler() -> None:
    names = "Success Error Unschedulable UnschedulableAndUnresolvable Wait Skip Pending"
    assert " ".join(code.camel for code in Code) == names
