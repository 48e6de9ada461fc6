"""Pods that somebody else deletes while they run, as a real API server shows them when only the last state is seen."""

from __future__ import annotations

import pytest

from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.pod_outcome import outcome_of
from pyscheduler.backend.pods import PodState


def last_seen(exit_code: int, exit_reason: str, finished_at: float, delete_at: float) -> PodState:
    """A pod whose kubelet is through with it, and that our finalizer keeps."""
    return PodState(
        name="p",
        uid="u",
        version=9,
        phase="Failed",
        deleting=True,
        delete_at=delete_at,
        exit_code=exit_code,
        exit_reason=exit_reason,
        finished_at=finished_at,
    )


@pytest.mark.parametrize(
    ("pod", "outcome"),
    [
        # Deleted at 100 with 30 s to stop; it stopped at 101, and at 103 the kubelet was through: 103 is what is told.
        pytest.param(last_seen(143, "Error", 101.0, 103.0), Outcome.DELETED, id="stopped by SIGTERM"),
        pytest.param(last_seen(137, "Error", 131.0, 133.0), Outcome.DELETED, id="stopped by SIGKILL"),
        pytest.param(last_seen(1, "Error", 101.0, 101.0), Outcome.DELETED, id="ended as it was deleted"),
        pytest.param(last_seen(1, "Error", 40.0, 103.0), Outcome.FAILED, id="failed long before it was deleted"),
        pytest.param(last_seen(137, "OOMKilled", 40.0, 103.0), Outcome.OOM_KILLED, id="out of memory long before"),
    ],
)
def test_who_ended_it(pod: PodState, outcome: Outcome) -> None:
    assert outcome_of(pod, None) is outcome
