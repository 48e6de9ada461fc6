"""The sentence that users read and alerts match, byte for byte."""

from __future__ import annotations

from collections import Counter

import pytest

from pyscheduler.api import Code, Diagnosis, Status

CPU, MEMORY, PODS = "Insufficient cpu", "Insufficient memory", "Too many pods"


def no(*reasons: str, plugin: str = "NodeResourcesFit") -> Status:
    return Status(Code.UNSCHEDULABLE, plugin, reasons)


@pytest.mark.parametrize(
    ("diagnosis", "message"),
    [
        pytest.param(Diagnosis(0), "0/0 nodes are available:", id="nothing known"),
        pytest.param(
            Diagnosis(3, Counter({no(CPU): 2, no(MEMORY): 1})),
            f"0/3 nodes are available: 1 {MEMORY}, 2 {CPU}.",
            id="sorted with their counts",
        ),
        pytest.param(
            Diagnosis(13, Counter({no(CPU): 2, no(MEMORY): 10})),
            f"0/13 nodes are available: 10 {MEMORY}, 2 {CPU}.",
            id="sorted as text: 10 before 2",
        ),
        pytest.param(
            Diagnosis(3, Counter({no(CPU, MEMORY): 2, no(CPU): 1})),
            f"0/3 nodes are available: 2 {MEMORY}, 3 {CPU}.",
            id="every reason of a node counts",
        ),
        pytest.param(
            Diagnosis(2, Counter({no(PODS, plugin="A"): 1, no(PODS, plugin="B"): 1})),
            f"0/2 nodes are available: 2 {PODS}.",
            id="one reason of two plugins is one reason",
        ),
        pytest.param(
            Diagnosis(2, Counter({no(CPU): 2}), post_filter_message="preemption: no."),
            f"0/2 nodes are available: 2 {CPU}. preemption: no.",
            id="with PostFilter's part",
        ),
        pytest.param(
            Diagnosis(2, Counter({no(CPU): 2}), pre_filter=no("no such claim")),
            "0/2 nodes are available: no such claim.",
            id="PreFilter's answer takes the place of the nodes'",
        ),
        pytest.param(Diagnosis(2, pre_filter=no()), "0/2 nodes are available:", id="PreFilter without a reason"),
    ],
)
def test_the_message(diagnosis: Diagnosis, message: str) -> None:
    assert diagnosis.message == message
    assert message.startswith(diagnosis.filter_message)


def test_codes_are_spelled_as_kube_scheduler_spells_them() -> None:
    names = "Success Error Unschedulable UnschedulableAndUnresolvable Wait Skip Pending"
    assert " ".join(code.camel for code in Code) == names
