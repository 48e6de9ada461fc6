"""How an attempt at a task can end, and what each end means. This table is the policy; `retry` sets its numbers.

Kinds of ends: by INFRASTRUCTURE (the cluster took the pod away; the task did nothing wrong), by the APPLICATION (it ran
and failed), by CONFIGURATION (as it is written it cannot run), and those after which nothing is tried again.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class FailureKind(enum.StrEnum):
    """Whose fault an end is; a retry policy has a number for each of the first three."""

    INFRASTRUCTURE = "infrastructure"
    APPLICATION = "application"
    CONFIGURATION = "configuration"
    NONE = "nobody"
    """Never tried again."""


class Outcome(enum.StrEnum):
    """The end of one attempt."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    DISRUPTED = "Disrupted"
    DELETED = "Deleted"
    NODE_LOST = "NodeLost"
    NODE_REFUSED = "NodeRefused"
    GONE = "Gone"
    STUCK = "Stuck"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE = "ImageError"
    CONFIG = "CreateContainerConfigError"
    REFUSED = "Refused"
    QUOTA = "QuotaExceeded"
    DEADLINE = "DeadlineExceeded"
    KILLED = "Killed"


class OutcomeInfo(NamedTuple):
    """Whose fault an outcome is, and the sentence that the owner reads."""

    kind: FailureKind
    description: str


OUTCOME_INFO: dict[Outcome, OutcomeInfo] = {
    Outcome.SUCCEEDED: OutcomeInfo(FailureKind.NONE, "every container ended well"),
    Outcome.FAILED: OutcomeInfo(FailureKind.APPLICATION, "a container ended with an error"),
    Outcome.OOM_KILLED: OutcomeInfo(FailureKind.APPLICATION, "a container used more memory than its limit"),
    Outcome.EVICTED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod was evicted"),
    Outcome.PREEMPTED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod gave way to one of higher priority"),
    Outcome.DISRUPTED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the cluster took the pod off its node"),
    Outcome.DELETED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "somebody else deleted the pod"),
    Outcome.NODE_LOST: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the node of the pod was lost"),
    Outcome.NODE_REFUSED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the node did not take the pod"),
    Outcome.GONE: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod is gone without a trace"),
    Outcome.STUCK: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod has a node but did not start in time"),
    Outcome.UNSCHEDULABLE: OutcomeInfo(FailureKind.CONFIGURATION, "no node was found in time"),
    Outcome.IMAGE: OutcomeInfo(FailureKind.CONFIGURATION, "the image cannot be had"),
    Outcome.CONFIG: OutcomeInfo(FailureKind.CONFIGURATION, "the container cannot be made as it is configured"),
    Outcome.REFUSED: OutcomeInfo(FailureKind.CONFIGURATION, "the API server does not take the pod"),
    Outcome.QUOTA: OutcomeInfo(FailureKind.CONFIGURATION, "the quota of the namespace had no room in time"),
    Outcome.DEADLINE: OutcomeInfo(FailureKind.NONE, "the task was not done by its deadline"),
    Outcome.KILLED: OutcomeInfo(FailureKind.NONE, "the owner ended the task"),
}
