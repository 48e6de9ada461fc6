"""Limits of users and groups of users within queues (YuniKorn's `limits`).

A limit of a queue holds for the queue and all queues below it. That for a name precedes that for `*`, which holds for
each user, or each group of users, on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from pyscheduler.api import Pod
from pyscheduler.api.counts import counted
from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import Amounts, amount
from pyscheduler_plugins.queues.quantities import format_amount

USER_ANNOTATION = "pyscheduler.io/user"
"""Annotation of a pod with its user."""
USER_GROUPS_ANNOTATION = "pyscheduler.io/user-groups"
"""Annotation of a pod with the groups of its user, separated by commas."""
YUNIKORN_USER_LABEL = "yunikorn.apache.org/username"
"""Label of a pod with its user, which YuniKorn reads, too."""
NOBODY = "nobody"
"""User of the pods that name none, as in YuniKorn."""
ANY = "*"
ALL_JOBS = "all jobs"
"""Account that every job counts toward."""
_MAX_NAMES = 16
"""Number of users, and of groups of users, of one pod group that count: anyone may create pods with others."""
_MAX_LENGTH = 253


@dataclass(frozen=True, slots=True)
class LimitArgs:
    """Most that each of some users and groups may have in a queue; without any, most that its jobs have together."""

    queue: str = ANY
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_resources: dict[str, str | int] = field(default_factory=dict)
    max_jobs: int | None = None

    def named(self) -> Iterator[tuple[str, str, str]]:
        """Yield the users and groups: path of the field, name, and account as `PodGroup.accounts` has it."""
        if not self.users and not self.groups:
            yield "", "all jobs", ALL_JOBS
        for i, name in enumerate(self.users):
            yield f".users[{i}]", name, user_account(name)
        for i, name in enumerate(self.groups):
            yield f".groups[{i}]", name, group_account(name)


class Limit(Struct, frozen=True):
    """Most that one user or group may have in a queue."""

    max_resources: Amounts
    max_jobs: int | None


LimitTable = Mapping[tuple[str, str], Limit]
"""Limits by queue and account, either of which may be `*`."""


def read_limits(declared: Collection[LimitArgs]) -> LimitTable:
    """Return the limits. ValueError names the first invalid field."""
    table: dict[tuple[str, str], Limit] = {}
    for i, each in enumerate(declared):
        path = f"limits[{i}]"
        if not each.queue:
            raise ValueError(f"{path}.queue: Required value")
        if not each.max_resources and each.max_jobs is None:
            raise ValueError(f"{path}: Required value: maxResources or maxJobs")
        if each.max_jobs is not None and each.max_jobs < 0:
            raise ValueError(f"{path}.maxJobs: Invalid value: {each.max_jobs}: must be greater than or equal to 0")
        limit = Limit(_amounts(each.max_resources, f"{path}.maxResources"), each.max_jobs)
        for of_field, name, account in each.named():
            if not name:
                raise ValueError(f"{path}{of_field}: Required value")
            if (each.queue, account) in table:
                text = f'Duplicate value: "{name}": queue {each.queue} has a limit for it already'
                raise ValueError(f"{path}{of_field}: {text}")
            table[each.queue, account] = limit
    return table


def _amounts(declared: Mapping[str, str | int], path: str) -> Amounts:
    read: Amounts = {}
    for resource, quantity in declared.items():
        try:
            read[resource] = amount(resource, quantity)
        except QuantityError as error:
            raise ValueError(f'{path}[{resource}]: Invalid value: "{quantity}": {error}') from error
        if read[resource] < 0:
            raise ValueError(f'{path}[{resource}]: Invalid value: "{quantity}": must be greater than or equal to 0')
    return read


def user_account(name: str) -> str:
    """Return the account of a user."""
    return f"user {name}"


def group_account(name: str) -> str:
    """Return the account of a group of users."""
    return f"group {name}"


def accounts_of(members: Collection[Pod]) -> tuple[str, ...]:
    """Return the users and the groups of users of pods, in a fixed order.

    Pods of several users count toward each of them, so none can hide its use behind that of another one.
    """
    users, groups = set[str](), set[str]()
    for pod in {pod.signature: pod for pod in members}.values():
        user = pod.annotations.get(USER_ANNOTATION) or pod.labels.get(YUNIKORN_USER_LABEL) or NOBODY
        users.add(user[:_MAX_LENGTH])
        names = pod.annotations.get(USER_GROUPS_ANNOTATION, "")
        groups.update(stripped[:_MAX_LENGTH] for name in names.split(",") if (stripped := name.strip()))
    return (
        ALL_JOBS,
        *map(user_account, sorted(users)[:_MAX_NAMES]),
        *map(group_account, sorted(groups)[:_MAX_NAMES]),
    )


class _Use(Struct):
    """Allocated amounts and started jobs of one account in one queue."""

    allocated: Amounts
    jobs: int = 0


class _Job(Struct, frozen=True):
    """Use of one job."""

    queue: str
    accounts: tuple[str, ...]
    allocated: Amounts
    is_started: bool


class LimitedUse:
    """Use of all limits. `path` returns the names of a queue and those above it."""

    def __init__(self, limits: LimitTable, path: Callable[[str], Collection[str]]) -> None:
        self._limits = limits
        self._path = path
        self._jobs: dict[Hashable, _Job] = {}
        self._uses: dict[tuple[str, str], _Use] = {}

    def __bool__(self) -> bool:
        """Return True if there are limits."""
        return bool(self._limits)

    def set_job(
        self, key: Hashable, queue: str, accounts: tuple[str, ...], allocated: Amounts, *, is_started: bool
    ) -> None:
        """Set what a job has allocated, and whether pods of it have a node."""
        self.remove_job(key)
        job = self._jobs[key] = _Job(queue, accounts, allocated, is_started)
        self._count(job, 1)

    def remove_job(self, key: Hashable) -> None:
        """Remove a job; unknown ones are ignored."""
        job = self._jobs.pop(key, None)
        if job is not None:
            self._count(job, -1)

    def set_queues(self) -> None:
        """Count all jobs anew after queues have moved."""
        self._uses.clear()
        for job in self._jobs.values():
            self._count(job, 1)

    def _count(self, job: _Job, sign: int) -> None:
        for queue, account, _ in self._limits_of(job.queue, job.accounts):
            use = self._uses.get((queue, account))
            if use is None:
                use = self._uses[queue, account] = _Use({})
            use.jobs += sign * job.is_started
            for resource, n in job.allocated.items():
                use.allocated[resource] = use.allocated.get(resource, 0) + sign * n
            if not use.jobs and not any(use.allocated.values()):
                del self._uses[queue, account]

    def exceeded(self, key: Hashable, queue: str, accounts: tuple[str, ...], request: Amounts) -> str:
        """Return which limit the job would exceed with this request, "" if none."""
        job = self._jobs.get(key)
        is_started = job is not None and job.is_started
        for where, account, limit in self._limits_of(queue, accounts):
            use = self._uses.get((where, account)) or _Use({})
            if limit.max_jobs is not None and not is_started and use.jobs >= limit.max_jobs:
                return _jobs_message(account, where, use.jobs, limit.max_jobs)
            for resource, most in limit.max_resources.items():
                requested, allocated = request.get(resource, 0), use.allocated.get(resource, 0)
                if requested > 0 and allocated + requested > most:
                    return _message(account, where, resource, (most, allocated, requested))
        return ""

    def _limits_of(self, queue: str, accounts: tuple[str, ...]) -> Iterator[tuple[str, str, Limit]]:
        """Yield the limits of the accounts in the queue and those above it: queue, account and limit."""
        if not self._limits:
            return
        for account in accounts:
            anyone = f"{account.split(' ', 1)[0]} {ANY}"
            for where in self._path(queue):
                # `*` is each queue with jobs: of the queues above, it would be their sum.
                scopes = (where, ANY) if where == queue else (where,)
                found = (self._limits.get((scope, name)) for scope in scopes for name in (account, anyone))
                limit = next((each for each in found if each is not None), None)
                if limit is not None:
                    yield where, account, limit


def _jobs_message(account: str, queue: str, jobs: int, most: int) -> str:
    subject, where = _subject(account, queue)
    return f"{subject} has {counted(jobs, 'job')}{where}, its limit is {most}"


def _message(account: str, queue: str, resource: str, amounts: tuple[int, int, int]) -> str:
    most, allocated, requested = amounts
    excess = allocated + requested - most
    texts = [format_amount(resource, each) for each in (most, excess, allocated, requested)]
    subject, where = _subject(account, queue)
    return (
        f"{subject} would exceed its limit of {texts[0]}{where} by {texts[1]}:"
        f" {texts[2]} allocated, {texts[3]} requested"
    )


def _subject(account: str, queue: str) -> tuple[str, str]:
    """Return what a limit is of, and where it holds, as text."""
    return (f"queue {queue}", "") if account == ALL_JOBS else (account, f" in queue {queue}")
