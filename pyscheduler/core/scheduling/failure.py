"""Reasons of failed scheduling attempts."""

from __future__ import annotations

import msgspec

from pyscheduler.api.cycle import AttemptLimitExceeded
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.texts import text_of

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
QUOTA_EXCEEDED = "QuotaExceeded"
"""Reason of pods that wait for their queue; not Unschedulable, on which autoscalers would add nodes."""
ROOM_RESERVED = "RoomReserved"
"""Reason of pods that would delay the first group that lacks room."""
SCHEDULING_GATED = "SchedulingGated"
"""Reason of pods whose group, or part of a group, lacks pods."""
EVALUATION_LIMIT = "EvaluationLimit"
"""Rejector of a pod that exceeded the limit on evaluations; no plugin has this name, so no event requeues the pod."""


class Failure(msgspec.Struct, frozen=True):
    """Reason of a failed attempt. `nominate` is the new nominated node: None leaves it unchanged, "" clears it."""

    message: str
    reason: str = UNSCHEDULABLE
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominate: str | None = None
    in_memory: bool = False
    """True if the nomination is not written to the pod's status, because its victims are not evicted yet."""
    group_message: str = ""
    """Message of the pod's group, if that of the pod is another one; "" for the same."""
    fits: bool = False
    """True if the pod itself would fit; only the rest of its group does not."""
    is_unresolvable: bool = False
    """True if the pod would fit no node even if others were evicted: UnschedulableAndUnresolvable on each."""

    @staticmethod
    def fit_error(diagnosis: Diagnosis, nominate: str | None = None, *, in_memory: bool = False) -> Failure:
        """Return the failure of a pod that fits no node."""
        return Failure(
            diagnosis.message,
            UNSCHEDULABLE,
            frozenset(diagnosis.unschedulable_plugins),
            frozenset(diagnosis.pending_plugins),
            nominate,
            in_memory,
            is_unresolvable=_is_unresolvable(diagnosis),
        )

    @staticmethod
    def rejected(plugin: str, message: str, pending: bool = False) -> Failure:
        """Return the failure of a pod that a plugin rejected after the node was chosen: a fit error on one node."""
        text = f"0/1 nodes are available: 1 {message}."
        plugins = frozenset({plugin} - {""})
        if pending:
            return Failure(text, UNSCHEDULABLE, frozenset(), plugins, "")
        return Failure(text, UNSCHEDULABLE, plugins, frozenset(), "")

    @staticmethod
    def of_plugin(failed: PluginFailed) -> Failure:
        """Return the failure of an attempt in which a plugin raised."""
        if isinstance(failed.error, AttemptLimitExceeded):
            return Failure(text_of(failed.error), UNSCHEDULABLE, frozenset({EVALUATION_LIMIT}), nominate="")
        return Failure.error(str(failed))

    @staticmethod
    def error(message: str) -> Failure:
        """Return the failure of an attempt that ended in an error; the pod is retried after its backoff."""
        return Failure(message, SCHEDULER_ERROR, nominate="")


def _is_unresolvable(diagnosis: Diagnosis) -> bool:
    statuses = diagnosis.tally if diagnosis.pre_filter is None else (diagnosis.pre_filter,)
    return bool(statuses) and all(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in statuses)


def quota_exceeded(plugin: str, message: str) -> Failure:
    """Return the failure of a pod whose queue may not allocate more."""
    return Failure(message, QUOTA_EXCEEDED, frozenset({plugin}), nominate="")


def room_reserved(plugin: str, message: str) -> Failure:
    """Return the failure of a pod that fits only on nodes that are reserved for another group."""
    return Failure(message, ROOM_RESERVED, frozenset({plugin}), nominate="")
