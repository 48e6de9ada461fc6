"""Disruption budgets of Volcano's Jobs: how many pods of a job may be evicted at once.

Volcano's job controller gives the pods a label with the name of their job, and the annotations of the job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from pyscheduler.api import Pod
from pyscheduler_plugins.pod_group import is_live

JOB_NAME: Final = "volcano.sh/job-name"
"""Label of pods with the name of their job."""
MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
"""Annotations with a number of pods, or a percentage of them; the first one counts if there are both."""

_AMOUNT: Final = re.compile(r"(\d{1,9})(%?)", re.ASCII)


class Job(NamedTuple):
    """Namespace and name of a job."""

    namespace: str
    name: str


def job_of(pod: Pod) -> Job | None:
    """Return the job of a pod that has a budget; None for other pods."""
    name = pod.labels.get(JOB_NAME)
    has_budget = MIN_AVAILABLE in pod.annotations or MAX_UNAVAILABLE in pod.annotations
    return Job(pod.namespace, name) if name and has_budget else None


def allowed_evictions(pod: Pod, members: Iterable[Pod]) -> int:
    """Return how many of a job's members, which all have the budget of this pod, may be evicted now.

    Terminating ones are not available, but are members until they are gone.
    ValueError with the annotation if that is invalid.
    """
    present = [member for member in members if member.deleting or is_live(member)]
    available = sum(bool(member.node_name) and not member.deleting for member in present)
    if MIN_AVAILABLE in pod.annotations:
        return max(0, available - _amount(pod, MIN_AVAILABLE, len(present)))
    unavailable = len(present) - available
    return max(0, _amount(pod, MAX_UNAVAILABLE, len(present)) - unavailable)


def within_budgets(
    evictions: Iterable[tuple[Pod, str]], members_of: Callable[[Job], Mapping[str, Pod]]
) -> Iterator[tuple[Pod, str]]:
    """Yield the evictions, with their reasons, that the budgets of the jobs allow; an invalid one is not considered."""
    left: dict[Job, int | str] = {}
    for pod, reason in evictions:
        job = job_of(pod)
        if job is None:
            yield pod, reason
            continue
        if job not in left:
            try:
                left[job] = allowed_evictions(pod, members_of(job).values())
            except ValueError as error:
                left[job] = str(error)
        allowed = left[job]
        if isinstance(allowed, str):
            yield pod, f"{reason}; {allowed}"
        elif allowed > 0:
            left[job] = allowed - 1
            yield pod, reason


def _amount(pod: Pod, annotation: str, total: int) -> int:
    text = pod.annotations[annotation]
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"annotation {annotation}: Invalid value: {text[:40]!r}: must be a number or a percentage")
    number = int(match[1])
    return -(-number * total // 100) if match[2] else number
