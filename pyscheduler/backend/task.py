"""A task and what is known of it: plain values, the whole of what survives a restart.

Everything else follows from a `TaskRecord`: the name of its pod, what it holds, what is left to be done about it.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from pyscheduler.api.objects import PodSpec, Toleration
from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import pod_requests
from pyscheduler.backend.outcomes import FailureKind, Outcome
from pyscheduler.backend.resources import NOTHING, ONE_POD, Resources

Json = dict[str, Any]


class TaskProblem(ValueError):
    """The task is not one that can be run; the message names the task and the field."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many more attempts are made after ends of each kind, and how long is waited before each (seconds).

    The numbers count attempts after the first, each kind by itself. The pause doubles from attempt to attempt.
    """

    infrastructure: int = 5
    application: int = 0
    configuration: int = 0
    backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 60.0

    def allowed(self, blame: FailureKind) -> int:
        """How many more attempts after ends of this kind."""
        return 0 if blame is FailureKind.NONE else int(getattr(self, blame.value))

    def pause(self, attempt: int) -> float:
        """Seconds to wait after so many attempts before the next."""
        return min(self.longest_backoff_seconds, self.backoff_seconds * 2.0 ** min(attempt - 1, 30))


class Gang(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks that start together or not at all: `size` of those that name the same gang. The backend keeps its PodGroup
    (scheduling.x-k8s.io/v1alpha1), which the scheduler's plugin Gang reads."""

    name: str
    size: int
    timeout_seconds: int | None = None
    """How long members that have a place wait for the others; None: as the scheduler is configured."""


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be run: one pod, given either as `pod` (the template: metadata and spec, as in a Job) or in the short
    form with `image` and what follows it. The other fields hold for both."""

    id: str
    """The owner's name for it, of 1 to 253 characters: submitting twice under one id is submitting once."""
    pod: Json | None = None
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cpu: str = ""
    """A quantity ("500m"), requested and, as for memory and `resources`, not limited unless `limits` says so."""
    memory: str = ""
    resources: dict[str, str] = {}
    """Further requests by name ("nvidia.com/gpu": "1"); extended resources are limited to the same amount."""
    limits: dict[str, str] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    priority_class: str = ""
    queue: str = ""
    """Put on the pod as the label pyscheduler.io/queue; a word for whoever divides resources between owners."""
    gang: Gang | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    scheduler: str = ""
    """Its schedulerName; "" takes the backend's."""
    retry: RetryPolicy = RetryPolicy()
    pending_seconds: float = 600.0
    """How long an attempt's pod may take to run, or be refused. It then ends as Unschedulable, Stuck, QuotaExceeded."""
    deadline_seconds: float | None = None
    """How long the task may take from its submission, all attempts and pauses together."""
    owner: Any = None
    """The owner's own data, given back with every update; JSON."""

    def requests(self) -> Resources:
        """What its pod asks for, and one pod. TaskProblem if that cannot be read."""
        return _requests(self)


class TaskPhase(enum.StrEnum):
    """Where a task is. The last three are final: whatever is in one of them stays there."""

    SUBMITTED = "Submitted"
    """Known and durable; its pod is not known to exist."""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"

    @property
    def final(self) -> bool:
        """Whether a task stays in it for ever."""
        return self in _FINAL


_FINAL = frozenset({TaskPhase.SUCCEEDED, TaskPhase.FAILED, TaskPhase.KILLED})


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that is known of a task. Times are seconds since the epoch."""

    spec: TaskSpec
    """As of the attempt under way."""
    phase: TaskPhase = TaskPhase.SUBMITTED
    attempt: int = 1
    pod_uid: str = ""
    """Of this attempt's pod, "" as long as it is not known to exist."""
    node: str = ""
    reason: str = ""
    """The `Outcome` of the last end, of this attempt or the one before; why the pod waits while there is none."""
    message: str = ""
    exit_code: int | None = None
    submitted_at: float = 0.0
    attempt_at: float = 0.0
    """From when on this attempt's pod may be created: later than the end before it by the retry's pause."""
    started_at: float | None = None
    """When this attempt began to run."""
    finished_at: float | None = None
    killing: bool = False
    """The owner wants its end. Never taken back."""
    ending: Outcome | None = None
    """Why we are about to end this attempt; kept so that the pod's death is not taken for something else."""
    failures: dict[str, int] = {}
    """By `FailureKind`: how many attempts have ended so."""
    next_spec: TaskSpec | None = None
    """What the owner has changed meanwhile that only another pod can follow; the next attempt is made of it."""
    told: bool = False
    """The owner has confirmed the final phase."""
    cleaned: bool = False
    """Final, and none of its pods is left."""
    version: int = 1
    """Grows with every change that the owner sees (not by `told` and `cleaned`): (id, version) names an update."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self.spec.id

    @property
    def final(self) -> bool:
        """Whether nothing about it will change but `told` and `cleaned`."""
        return self.phase.final

    @property
    def settled(self) -> bool:
        """Whether it is final and nothing of it is left in the cluster."""
        return self.final and self.cleaned


def allocated_resources(record: TaskRecord) -> Resources:
    """What the task holds of its owner's resources: its pod's requests from submission on, nothing once it is final.

    Between attempts it keeps what it holds. Where the owner has changed the requests of a task while it runs, the
    larger of both counts until the next attempt, so that neither the pod there is nor the next one lacks anything.
    """
    if record.final:
        return NOTHING
    now = record.spec.requests()
    return now | record.next_spec.requests() if record.next_spec is not None else now


def check(spec: TaskSpec) -> None:
    """TaskProblem if the spec is not one that can be run, as far as can be told without the API server."""
    problem = _problem(spec)
    if problem:
        raise TaskProblem(f"task {spec.id[:80]!r}: {problem}")
    spec.requests()


def _problem(spec: TaskSpec) -> str:
    if not 1 <= len(spec.id) <= 253 or not spec.id.isprintable():
        return "id must have 1 to 253 printable characters"
    if (spec.pod is None) == (not spec.image):
        return "give either pod or image"
    if spec.pod is not None and (spec.command or spec.args or spec.env or spec.cpu or spec.memory or spec.resources):
        return "command, args, env, cpu, memory and resources go with image; with pod, say it there"
    if spec.gang is not None and (spec.gang.size < 1 or not spec.gang.name):
        return "gang needs a name and a size of at least 1"
    if spec.pending_seconds <= 0 or (spec.deadline_seconds is not None and spec.deadline_seconds <= 0):
        return "pending_seconds and deadline_seconds must be above 0"
    retry = spec.retry
    if min(retry.infrastructure, retry.application, retry.configuration) < 0 or retry.backoff_seconds < 0:
        return "retry: numbers must not be negative"
    return ""


def _requests(spec: TaskSpec) -> Resources:
    try:
        if spec.pod is None:
            named = {"cpu": spec.cpu, "memory": spec.memory, **spec.resources}
            return Resources.of({name: q for name, q in named.items() if q}) + ONE_POD
        decoded = msgspec.convert(spec.pod.get("spec"), PodSpec, strict=False)
        return Resources({n: c for n, c in pod_requests(decoded).real.items() if c}) + ONE_POD
    except (msgspec.ValidationError, QuantityError) as problem:
        raise TaskProblem(f"task {spec.id!r}: {'pod.spec: ' if spec.pod is not None else ''}{problem}") from None
