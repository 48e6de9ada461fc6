"""Task specs and records: plain values, and all that survives a restart.

Everything else follows from a `TaskRecord`: the name of its pod, the allocated resources, the next call.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from pyscheduler.api.objects import PodSpec, Toleration
from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import pod_requests
from pyscheduler.backend.outcomes import FailureKind, Outcome
from pyscheduler.backend.resources import NOTHING, ONE_POD, Resources

Json = dict[str, Any]
_TEMPLATE_FIELDS = ("apiVersion", "kind", "metadata", "spec")
"""Fields of a pod template, and those of a pod manifest that are always the same."""
_METADATA_FIELDS = ("labels", "annotations", "finalizers")
_encoder = msgspec.json.Encoder()


class TaskProblem(ValueError):
    """Invalid task spec; the message names the task and the field."""


class _TemplateMetadata(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None


class _TemplateSpec(msgspec.Struct, frozen=True, rename="camel"):
    image_pull_secrets: tuple[Json, ...] | None = None


class _Template(msgspec.Struct, frozen=True):
    """The fields of a pod template to which the backend adds its own, besides those of `PodSpec`."""

    metadata: _TemplateMetadata | None = None
    spec: _TemplateSpec | None = None


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Retries allowed per failure kind, and the backoff before each in seconds.

    Each kind is counted separately. The backoff doubles with each attempt.
    """

    infrastructure: int = 5
    application: int = 0
    configuration: int = 0
    backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 60.0

    def allowed(self, kind: FailureKind) -> int:
        """Return the number of retries after failures of this kind."""
        return 0 if kind is FailureKind.NONE else int(getattr(self, kind.value))

    def pause(self, attempt: int) -> float:
        """Return the seconds to wait after this attempt before the next."""
        return min(self.longest_backoff_seconds, self.backoff_seconds * 2.0 ** min(attempt - 1, 30))


class UpdatePolicy(enum.StrEnum):
    """Effect of an update for which the task's pod had to be replaced, when that pod ends."""

    RUN = "run"
    """The task runs again with the updated spec, however the pod ended, and whatever retries are left."""
    DISCARD = "discard"
    """The task is final; its record keeps the updated spec in `next_spec` and the message names it."""


class TaskGang(msgspec.Struct, frozen=True, kw_only=True):
    """Group of tasks that start together or not at all, once `size` tasks with this gang name fit.

    The backend creates its PodGroup (scheduling.x-k8s.io/v1alpha1), which the scheduler plugin Gang reads.
    """

    name: str
    size: int
    timeout_seconds: int | None = None
    """Seconds that reserved members wait for the others; None: the scheduler's default."""


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Task to run as one pod, given as `pod` (a template with metadata and spec, as in a Job) or in short form with
    `image`, `command`, `args`, `env`, `cpu`, `memory` and `resources`. All other fields apply to both."""

    id: str
    """Owner's id of the task, 1 to 253 characters. Submitting an id twice creates one task."""
    pod: Json | None = None
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cpu: str = ""
    """CPU request ("500m"). Limits of cpu, memory and `resources` are set in `limits`."""
    memory: str = ""
    resources: dict[str, str] = {}
    """Other requests by resource name ("nvidia.com/gpu": "1"); extended resources get the equal limit."""
    limits: dict[str, str] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    priority_class: str = ""
    queue: str = ""
    """Queue (docs/queues.md) of the task or its gang, also the value of the pod label pyscheduler.io/queue."""
    gang: TaskGang | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    scheduler: str = ""
    """schedulerName of the pod; "": that of the backend."""
    service_account: str = ""
    pull_secrets: tuple[str, ...] = ()
    """Names of the Secrets for the image registry."""
    main_container: str = ""
    """Container whose end is the task's end; "": all containers of the spec, without those that webhooks inject."""
    priority: int = 0
    """Order in the backend's own queue: higher first. The pod's priority is that of `priority_class`."""
    update_policy: UpdatePolicy = UpdatePolicy.RUN
    """Effect of an update during an attempt, once that ends: run the task again with the new spec, or not."""
    retry: RetryPolicy = RetryPolicy()
    pending_seconds: float | None = None
    """Time an attempt may wait for room before it ends as Unschedulable, NoScheduler or QuotaExceeded; None: no limit.
    It counts from the first attempt of a scheduler, or the first rejection by a quota."""
    start_seconds: float = 600.0
    """Time a pod with a node may take to start before it ends as Stuck; also for creates that other rules reject."""
    deadline_seconds: float | None = None
    """Time limit of the task from its submission, including all attempts and backoffs."""
    owner: Any = None
    """JSON data of the owner, included in every update."""

    def requests(self) -> Resources:
        """Return the pod's resource requests, including one pod. TaskProblem if a quantity is invalid."""
        return _requests(self)


class TaskPhase(enum.StrEnum):
    """Phase of a task. Succeeded, Failed and Killed are final: they never change again."""

    SUBMITTED = "Submitted"
    """Durable, but its pod has not been observed."""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"

    @property
    def final(self) -> bool:
        """True if the phase never changes again."""
        return self in _FINAL


_FINAL = frozenset({TaskPhase.SUCCEEDED, TaskPhase.FAILED, TaskPhase.KILLED})


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Durable state of a task. Times are seconds since the epoch."""

    spec: TaskSpec
    """Spec of the current attempt."""
    phase: TaskPhase = TaskPhase.SUBMITTED
    attempt: int = 1
    submission: str = ""
    """Random id of the submission, also an annotation of its pods: others do not belong to the task."""
    pod_uid: str = ""
    """Uid of the current attempt's pod, "" until it is observed."""
    node: str = ""
    reason: str = ""
    """`Outcome` of the last attempt that ended; while a pod waits, the reason for that."""
    message: str = ""
    exit_code: int | None = None
    submitted_at: float = 0.0
    attempt_at: float = 0.0
    """Earliest time to create the current attempt's pod, after the retry backoff."""
    started_at: float | None = None
    """Start time of the current attempt."""
    finished_at: float | None = None
    killing: bool = False
    """True once the owner has called `kill`; never reset."""
    ending: Outcome | None = None
    """Reason why the backend is ending the attempt, kept so that the pod's exit is not read as another outcome."""
    failures: dict[str, int] = {}
    """Number of attempts that ended with each `FailureKind`."""
    next_spec: TaskSpec | None = None
    """Updated spec that needs a new pod; the next attempt uses it."""
    unreleased: dict[str, int] = {}
    """Ended pods that may still exist: attempt by uid. One that has lost its label is not listed any more."""
    acknowledged: bool = msgspec.field(default=False, name="told")
    """True once the owner has received the final record."""
    cleaned: bool = False
    """True once the task is final and all its pods are deleted."""
    version: int = 1
    """Incremented with each change except of `acknowledged`, `cleaned` and `unreleased`. (id, submission, version)
    identifies an update: a task that is submitted again after it was forgotten has another submission."""

    @property
    def id(self) -> str:
        """Id of the task."""
        return self.spec.id

    @property
    def final(self) -> bool:
        """True if only `acknowledged`, `cleaned` and `unreleased` can change."""
        return self.phase.final

    @property
    def settled(self) -> bool:
        """True if the task is final and all its pods are deleted."""
        return self.final and self.cleaned


def allocated_resources(record: TaskRecord) -> Resources:
    """Return the resources allocated to the task: its pod's requests from submission on, nothing once it is final.

    They stay allocated between attempts. After an update of the requests the larger of both counts until the next
    attempt, so that both the current pod and the next one are covered.
    """
    if record.final:
        return NOTHING
    now = record.spec.requests()
    return now | record.next_spec.requests() if record.next_spec is not None else now


def decode_spec(value: object) -> TaskSpec:
    """Convert the input of an owner to a spec. ValidationError names the place, also of an unknown field.

    Records are decoded without this check: fields that a later release wrote do not make them unreadable.
    """
    _reject_unknown_fields(value, TaskSpec, "$")
    return msgspec.convert(value, TaskSpec, strict=False)


def _reject_unknown_fields(value: object, type: type[msgspec.Struct], place: str) -> None:
    if not isinstance(value, dict):
        return
    known = {field.encode_name for field in msgspec.structs.fields(type)}
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None:
        raise msgspec.ValidationError(f"Object contains unknown field `{unknown}` - at `{place}`")
    if type is TaskSpec:
        _reject_unknown_fields(value.get("retry"), RetryPolicy, f"{place}.retry")
        _reject_unknown_fields(value.get("gang"), TaskGang, f"{place}.gang")
        tolerations = value.get("tolerations")
        for index, item in enumerate(tolerations if isinstance(tolerations, list) else ()):
            _reject_unknown_fields(item, Toleration, f"{place}.tolerations[{index}]")


_decoder: Final = msgspec.json.Decoder(TaskSpec)


def checked(spec: TaskSpec) -> TaskSpec:
    """Return a valid spec as it is stored: a list is a tuple. TaskProblem if it is invalid; the API server is not used.

    Otherwise a spec with a list would not equal its own record of an earlier process.
    """
    spec = _as_stored(spec)
    problem = _problem(spec)
    if problem:
        raise TaskProblem(f"task {spec.id[:80]!r}: {problem}")
    spec.requests()
    try:
        Resources.of(spec.limits)
    except QuantityError as error:
        raise TaskProblem(f"task {spec.id[:80]!r}: limits: {error}") from None
    return spec


def _as_stored(spec: TaskSpec) -> TaskSpec:
    """Return the spec as it is read from the state. TaskProblem for a value of the wrong type."""
    if not isinstance(spec, TaskSpec):
        raise TaskProblem(f"a task is a TaskSpec, not {type(spec).__name__}")
    try:
        return _decoder.decode(_encoder.encode(spec))
    except msgspec.ValidationError as error:
        raise TaskProblem(f"task {str(spec.id)[:80]!r}: {error}") from None
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise TaskProblem(f"task {str(spec.id)[:80]!r} cannot be stored as JSON: {error}") from None


def _problem(spec: TaskSpec) -> str:
    if not 1 <= len(spec.id) <= 253 or not spec.id.isprintable():
        return "id must have 1 to 253 printable characters"
    if (spec.pod is None) == (not spec.image):
        return "give either pod or image"
    if spec.pod is not None and (spec.command or spec.args or spec.env or spec.cpu or spec.memory or spec.resources):
        return "command, args, env, cpu, memory and resources require image; with pod, set them in its containers"
    if spec.pod is not None and spec.limits:
        return "limits require image; with pod, set them in its containers"
    if spec.pod is not None and (unknown := _unknown_template_field(spec.pod)):
        return (
            f"{unknown} is not a field of a pod template, which has metadata (labels, annotations, finalizers) and spec"
        )
    if spec.pod is not None:
        try:
            msgspec.convert(spec.pod, _Template)
        except msgspec.ValidationError as problem:
            return f"pod: {problem}"
    if spec.gang is not None and (spec.gang.size < 1 or not spec.gang.name):
        return "gang needs a name and a size of at least 1"
    limits = (spec.pending_seconds, spec.start_seconds, spec.deadline_seconds)
    if any(seconds is not None and seconds <= 0 for seconds in limits):
        return "pending_seconds, start_seconds and deadline_seconds must be above 0"
    retry = spec.retry
    if min(retry.infrastructure, retry.application, retry.configuration) < 0 or retry.backoff_seconds < 0:
        return "retry: numbers must not be negative"
    return ""


def _unknown_template_field(template: Json) -> str:
    """Return the path of a field that would be dropped, "" if there is none. The API server checks the spec."""
    metadata = {} if template.get("metadata") is None else template["metadata"]
    if not isinstance(metadata, dict):
        return "pod.metadata"
    unknown = [f"pod.{name}" for name in template if name not in _TEMPLATE_FIELDS]
    # `kubectl create --dry-run=client -o yaml` prints `creationTimestamp: null`.
    unknown += [f"pod.metadata.{n}" for n, value in metadata.items() if n not in _METADATA_FIELDS and value is not None]
    return unknown[0] if unknown else ""


def _requests(spec: TaskSpec) -> Resources:
    try:
        if spec.pod is None:
            quantities = {"cpu": spec.cpu, "memory": spec.memory, **spec.resources}
            return Resources.of({name: q for name, q in quantities.items() if q}) + ONE_POD
        decoded = msgspec.convert(spec.pod.get("spec"), PodSpec, strict=False)
        return Resources({n: c for n, c in pod_requests(decoded).real.items() if c}) + ONE_POD
    except (msgspec.ValidationError, QuantityError) as problem:
        raise TaskProblem(f"task {spec.id!r}: {'pod.spec: ' if spec.pod is not None else ''}{problem}") from None
