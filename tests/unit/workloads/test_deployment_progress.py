"""A rollout that makes no progress for progressDeadlineSeconds has failed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.workloads.deployment import reconcile
from tests.unit.workloads.builders import Json, status_of
from tests.unit.workloads.test_deployment import deployment, replica_set

DEADLINE = 60
CHECKED = DEADLINE + 2.0
"""Seconds from the last progress to the check of the deadline, with a margin for times in whole seconds."""


class Rollout:
    """A Deployment of two pods; its status is kept from one reconciliation to the next."""

    def __init__(self, deadline: int | None = DEADLINE) -> None:
        self.deployment = deployment(2, progressDeadlineSeconds=deadline)
        self.requeue_at = math.inf

    def at(self, now: float, available: int | None, **spec: Any) -> str:
        """Reconcile with that many available pods, None before the ReplicaSet exists; return status and reason."""
        self.deployment["spec"] |= spec
        sets = [] if available is None else [replica_set(deployment(2), 2, available)]
        plan = reconcile(self.deployment, sets, [], now)
        self.deployment["status"] = status_of(plan, self.deployment["status"])
        self.requeue_at = plan.requeue_at
        found = [f"{each['status']} {each['reason']}" for each in self._conditions()]
        return found[0] if found else ""

    def _conditions(self) -> list[Json]:
        return [each for each in self.deployment["status"]["conditions"] if each["type"] == "Progressing"]


def test_rollout_without_progress_times_out_and_recovers() -> None:
    rollout = Rollout()
    assert rollout.at(100, None) == "True NewReplicaSetCreated"
    assert rollout.at(101, 0) == "True ReplicaSetUpdated"
    assert rollout.requeue_at == 101 + CHECKED
    assert rollout.at(101 + DEADLINE, 0) == "True ReplicaSetUpdated"
    assert rollout.at(rollout.requeue_at, 0) == "False ProgressDeadlineExceeded"
    assert rollout.requeue_at == math.inf
    assert rollout.at(300, 1) == "True ReplicaSetUpdated"
    assert rollout.at(301, 2) == "True NewReplicaSetAvailable"


def test_each_pod_that_becomes_available_starts_the_deadline_anew() -> None:
    rollout = Rollout()
    rollout.at(0, None)
    rollout.at(1, 0)
    assert rollout.at(50, 1) == "True ReplicaSetUpdated"
    assert rollout.at(100, 1) == "True ReplicaSetUpdated"
    assert rollout.requeue_at == 50 + CHECKED
    assert rollout.at(50 + CHECKED, 1) == "False ProgressDeadlineExceeded"


def test_pods_that_fail_after_the_rollout_do_not_time_out() -> None:
    rollout = Rollout()
    rollout.at(0, None)
    assert rollout.at(1, 2) == "True NewReplicaSetAvailable"
    assert rollout.at(1000, 0) == "True NewReplicaSetAvailable"
    assert rollout.requeue_at == math.inf


def test_pause_stops_the_deadline() -> None:
    rollout = Rollout()
    rollout.at(0, None)
    rollout.at(1, 0)
    assert rollout.at(30, 0, paused=True) == "Unknown DeploymentPaused"
    assert rollout.at(1000, 0) == "Unknown DeploymentPaused"
    assert rollout.at(2000, 0, paused=False) == "Unknown DeploymentResumed"
    assert rollout.requeue_at == 2000 + CHECKED
    assert rollout.at(2000 + CHECKED, 0) == "False ProgressDeadlineExceeded"


@pytest.mark.parametrize("deadline", [None, 2**31 - 1], ids=["missing", "the largest int32"])
def test_deployment_without_deadline_has_no_condition(deadline: int | None) -> None:
    rollout = Rollout(deadline)
    assert [rollout.at(now, 0) for now in (0, 1, 10_000)] == ["", "", ""]
    assert rollout.requeue_at == math.inf
