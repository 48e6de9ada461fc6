"""Outcomes of an attempt at a task, with the failure kind that decides about a retry. `retry` sets the numbers.

Failure kinds: INFRASTRUCTURE (the cluster removed the pod), APPLICATION (the container ran and failed), CONFIGURATION
(the task cannot run as specified) and NONE (never retried).
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class FailureKind(enum.StrEnum):
    """Cause of an outcome; a retry policy has a number of retries for each of the first three."""

    INFRASTRUCTURE = "infrastructure"
    APPLICATION = "application"
    CONFIGURATION = "configuration"
    NONE = "none"
    """Never retried."""


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
    CRASH_LOOP = "CrashLoopBackOff"
    UNSCHEDULABLE = "Unschedulable"
    NO_SCHEDULER = "NoScheduler"
    IMAGE = "ImageError"
    CONFIG = "CreateContainerConfigError"
    REFUSED = "Refused"
    FORBIDDEN = "Forbidden"
    POD_SECURITY = "PodSecurity"
    NAMESPACE_DELETED = "NamespaceDeleted"
    QUOTA = "QuotaExceeded"
    DEADLINE = "DeadlineExceeded"
    KILLED = "Killed"


class OutcomeInfo(NamedTuple):
    """Failure kind of an outcome, and its description for the owner."""

    kind: FailureKind
    description: str


OUTCOME_INFO: dict[Outcome, OutcomeInfo] = {
    Outcome.SUCCEEDED: OutcomeInfo(FailureKind.NONE, "all containers succeeded"),
    Outcome.FAILED: OutcomeInfo(FailureKind.APPLICATION, "a container exited with an error"),
    Outcome.OOM_KILLED: OutcomeInfo(FailureKind.APPLICATION, "a container used more memory than its limit"),
    Outcome.EVICTED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod was evicted"),
    Outcome.PREEMPTED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod was preempted by a pod of higher priority"),
    Outcome.DISRUPTED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod was disrupted, for example by a node shutdown"),
    Outcome.DELETED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod was deleted, but not by the backend"),
    Outcome.NODE_LOST: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the node of the pod was lost"),
    Outcome.NODE_REFUSED: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the kubelet rejected the pod"),
    Outcome.GONE: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod no longer exists and its end was not observed"),
    Outcome.STUCK: OutcomeInfo(FailureKind.INFRASTRUCTURE, "the pod has a node but did not start in time"),
    Outcome.CRASH_LOOP: OutcomeInfo(FailureKind.APPLICATION, "a container failed after each of its restarts"),
    Outcome.UNSCHEDULABLE: OutcomeInfo(FailureKind.CONFIGURATION, "no node was found in time"),
    Outcome.NO_SCHEDULER: OutcomeInfo(
        FailureKind.CONFIGURATION, "no scheduler has tried the pod: is one running with its schedulerName?"
    ),
    Outcome.IMAGE: OutcomeInfo(FailureKind.CONFIGURATION, "the image cannot be pulled"),
    Outcome.CONFIG: OutcomeInfo(FailureKind.CONFIGURATION, "the container cannot be created with this configuration"),
    Outcome.REFUSED: OutcomeInfo(FailureKind.CONFIGURATION, "the API server rejected the pod"),
    Outcome.FORBIDDEN: OutcomeInfo(FailureKind.CONFIGURATION, "the backend may not create pods"),
    Outcome.POD_SECURITY: OutcomeInfo(
        FailureKind.CONFIGURATION, "the Pod Security level of the namespace forbids the pod"
    ),
    Outcome.NAMESPACE_DELETED: OutcomeInfo(
        FailureKind.CONFIGURATION, "the namespace is being deleted or does not exist"
    ),
    Outcome.QUOTA: OutcomeInfo(FailureKind.CONFIGURATION, "the quota of the namespace had no room for the pod in time"),
    Outcome.DEADLINE: OutcomeInfo(FailureKind.NONE, "the task did not finish by its deadline"),
    Outcome.KILLED: OutcomeInfo(FailureKind.NONE, "the owner killed the task"),
}
