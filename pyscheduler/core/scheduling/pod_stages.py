"""Stages of a pod from its creation to its deletion, and the moves between them."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Stage(enum.Enum):
    """Where a pod is. A pod of one of the profiles is in exactly one stage."""

    NONE = "none"
    """It does not exist, is not ours, or was terminating when it was popped."""
    GATED = "gated"
    """In the queue: a PreEnqueue plugin keeps it from becoming active."""
    UNSCHEDULABLE = "unschedulable"
    """In the queue: it waits for an event after plugins have rejected it."""
    BACKOFF = "backoff"
    """In the queue: it waits for the end of its backoff."""
    ACTIVE = "active"
    """In the queue: it is ready for an attempt."""
    ATTEMPT = "attempt"
    """In flight: its node is being selected, in one call or in steps."""
    ASSUMED = "assumed"
    """Counted on its node in memory: Reserve and Permit run."""
    WAITING = "waiting"
    """Assumed: Permit makes it wait."""
    BINDING = "binding"
    """Assumed: the shell runs its binding cycle. Events are no longer recorded for it."""
    BOUND = "bound"
    """Assumed: the API server has accepted the binding; the watch has not shown it yet."""
    ASSIGNED = "assigned"
    """The watch has shown it on a node. It may be in the queue meanwhile, for a deferred resize."""


_ENDS = {Stage.NONE, Stage.ASSIGNED}
"""Any pod may be deleted, or bound by another scheduler."""
_RETRIED = {Stage.GATED, Stage.BACKOFF, Stage.ACTIVE}
"""Stages of a pod that is requeued after a failure; PreEnqueue runs again."""

MOVES: Mapping[Stage, frozenset[Stage]] = {
    Stage.NONE: frozenset({Stage.GATED, Stage.ACTIVE, Stage.ASSIGNED}),
    Stage.GATED: frozenset({Stage.BACKOFF, Stage.ACTIVE, *_ENDS}),
    Stage.UNSCHEDULABLE: frozenset({*_RETRIED, *_ENDS}),
    Stage.BACKOFF: frozenset({Stage.GATED, Stage.ACTIVE, Stage.ATTEMPT, *_ENDS}),
    Stage.ACTIVE: frozenset({Stage.GATED, Stage.ATTEMPT, *_ENDS}),
    Stage.ATTEMPT: frozenset({Stage.ASSUMED, Stage.UNSCHEDULABLE, *_RETRIED, *_ENDS}),
    Stage.ASSUMED: frozenset({Stage.WAITING, Stage.BINDING, Stage.UNSCHEDULABLE, *_RETRIED}),
    Stage.WAITING: frozenset({Stage.BINDING, Stage.UNSCHEDULABLE, *_RETRIED, *_ENDS}),
    Stage.BINDING: frozenset({Stage.BOUND, *_RETRIED, *_ENDS}),
    Stage.BOUND: frozenset({*_RETRIED, *_ENDS}),
    Stage.ASSIGNED: frozenset({Stage.NONE}),
}
"""Stages that may follow a stage directly."""


def may_become(before: Stage, after: Stage, *, in_attempt: bool) -> bool:
    """Return True if one call into the machine may move an existing pod from one stage to another.

    One call may make several moves, but starts an attempt only if it is `Machine.cycle` (`in_attempt`).
    """
    reached, unvisited = {before}, [before]
    while unvisited:
        for stage in MOVES[unvisited.pop()] - reached:
            reached.add(stage)
            if stage is not Stage.NONE and (in_attempt or stage is not Stage.ATTEMPT):
                unvisited.append(stage)
    return after in reached
