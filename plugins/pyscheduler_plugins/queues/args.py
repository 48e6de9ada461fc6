"""Arguments of the plugin Queues."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pyscheduler_plugins.queues.delays import Delays, check_seconds
from pyscheduler_plugins.queues.limits import LimitArgs, read_limits
from pyscheduler_plugins.queues.order import JobOrder, QueueOrder

BORROW_AFTER_SECONDS = 600.0
"""Default of `borrow_after_seconds`."""


class RunTimes(enum.StrEnum):
    """Run times that backfill depends on (args.runTimes)."""

    DECLARED = "Declared"
    """Those that pods declare."""
    LEARNT = "Learnt"
    """For pods that declare none, those of earlier runs of their workload."""


@dataclass(frozen=True, slots=True)
class QueuesArgs:
    """Args of Queues. `usage_half_life_seconds` applies if queues are ordered by usage over time."""

    queue_order: str = QueueOrder.SHARE.value
    job_order: str = JobOrder.TIME.value
    usage_half_life_seconds: int = 86_400
    limits: tuple[LimitArgs, ...] = ()
    borrow_after_seconds: float = BORROW_AFTER_SECONDS
    reclaim_min_run_seconds: float = 0.0
    preempt_min_run_seconds: float = 0.0
    quota_eviction_seconds: float | None = None
    run_times: str = RunTimes.DECLARED.value

    def __post_init__(self) -> None:
        _check_supported("queueOrder", self.queue_order, QueueOrder)
        _check_supported("jobOrder", self.job_order, JobOrder)
        _check_supported("runTimes", self.run_times, RunTimes)
        if self.usage_half_life_seconds <= 0:
            value = self.usage_half_life_seconds
            raise ValueError(f"usageHalfLifeSeconds: Invalid value: {value}: must be greater than 0")
        read_limits(self.limits)
        check_seconds("reclaimMinRunSeconds", self.reclaim_min_run_seconds)
        check_seconds("preemptMinRunSeconds", self.preempt_min_run_seconds)
        check_seconds("borrowAfterSeconds", self.borrow_after_seconds)
        check_seconds("quotaEvictionSeconds", self.quota_eviction_seconds)

    @property
    def delays(self) -> Delays:
        """Times of the queues that set none."""
        return Delays(
            self.reclaim_min_run_seconds,
            self.preempt_min_run_seconds,
            self.quota_eviction_seconds,
            self.borrow_after_seconds,
        )


def _check_supported(name: str, value: str, values: type[enum.StrEnum]) -> None:
    if value not in tuple(values):
        supported = ", ".join(f'"{each}"' for each in values)
        raise ValueError(f'{name}: Unsupported value: "{value}": supported values: {supported}')
