"""How an attempt at a task can end, and what each end means. This table is the policy; `retry` sets its numbers.

Kinds of ends: by INFRASTRUCTURE (the cluster took the pod away; the task did nothing wrong), by the APPLICATION (it ran
and failed), by CONFIGURATION (as it is written it cannot run), and those after which nothing is tried again.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Blame(enum.StrEnum):
    """Whose fault an end is; a retry policy has a number for each of the first three."""

    INFRASTRUCTURE = "infrastructure"
    APPLICATION = "application"
    CONFIGURATION = "configuration"
    NOBODY = "nobody"
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


class Meaning(NamedTuple):
    """Whose fault an outcome is, and the sentence that the owner reads."""

    blame: Blame
    says: str


MEANINGS: dict[Outcome, Meaning] = {
    Outcome.SUCCEEDED: Meaning(Blame.NOBODY, "every container ended well"),
    Outcome.FAILED: Meaning(Blame.APPLICATION, "a container ended with an error"),
    Outcome.OOM_KILLED: Meaning(Blame.APPLICATION, "a container used more memory than its limit"),
    Outcome.EVICTED: Meaning(Blame.INFRASTRUCTURE, "the pod was evicted"),
    Outcome.PREEMPTED: Meaning(Blame.INFRASTRUCTURE, "the pod gave way to one of higher priority"),
    Outcome.DISRUPTED: Meaning(Blame.INFRASTRUCTURE, "the cluster took the pod off its node"),
    Outcome.DELETED: Meaning(Blame.INFRASTRUCTURE, "somebody else deleted the pod"),
    Outcome.NODE_LOST: Meaning(Blame.INFRASTRUCTURE, "the node of the pod was lost"),
    Outcome.NODE_REFUSED: Meaning(Blame.INFRASTRUCTURE, "the node did not take the pod"),
    Outcome.GONE: Meaning(Blame.INFRASTRUCTURE, "the pod is gone without a trace"),
    Outcome.STUCK: Meaning(Blame.INFRASTRUCTURE, "the pod has a node but did not start in time"),
    Outcome.UNSCHEDULABLE: Meaning(Blame.CONFIGURATION, "no node was found in time"),
    Outcome.IMAGE: Meaning(Blame.CONFIGURATION, "the image cannot be had"),
    Outcome.CONFIG: Meaning(Blame.CONFIGURATION, "the container cannot be made as it is configured"),
    Outcome.REFUSED: Meaning(Blame.CONFIGURATION, "the API server does not take the pod"),
    Outcome.QUOTA: Meaning(Blame.CONFIGURATION, "the quota of the namespace had no room in time"),
    Outcome.DEADLINE: Meaning(Blame.NOBODY, "the task was not done by its deadline"),
    Outcome.KILLED: Meaning(Blame.NOBODY, "the owner ended the task"),
}
