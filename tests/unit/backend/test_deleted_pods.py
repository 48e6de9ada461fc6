"""Outcome of pods deleted by another client, from the last state that a real API server reports."""

from __future__ import annotations

import pytest

from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.pod_outcome import outcome_of
from pyscheduler.backend.pods import PodState


def deleted_pod(exit_code: int, exit_reason: str, finished_at: float, delete_at: float) -> PodState:
    """Return a pod that the kubelet has stopped and only the finalizer keeps."""
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
        # Deleted at 100 with a grace period of 30 s; stopped at 101; the kubelet finished at 103, which is reported.
        pytest.param(deleted_pod(143, "Error", 101.0, 103.0), Outcome.DELETED, id="stopped by SIGTERM"),
        pytest.param(deleted_pod(137, "Error", 131.0, 133.0), Outcome.DELETED, id="stopped by SIGKILL"),
        pytest.param(deleted_pod(1, "Error", 101.0, 101.0), Outcome.DELETED, id="failed at its deletion"),
        pytest.param(deleted_pod(1, "Error", 40.0, 103.0), Outcome.FAILED, id="failed long before its deletion"),
        pytest.param(
            deleted_pod(137, "OOMKilled", 40.0, 103.0), Outcome.OOM_KILLED, id="out of memory long before its deletion"
        ),
    ],
)
def test_deletion_is_distinguished_from_an_earlier_failure(pod: PodState, outcome: Outcome) -> None:
    assert outcome_of(pod, None) is outcome
