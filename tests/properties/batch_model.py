"""Random batch clusters: queues, pod groups with roles, topologies and minResources; what holds at every instant.

Usage, quotas, topologies and roles are computed from the objects alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pyscheduler.api import Pod
from pyscheduler.config.load import load
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Command, Evict
from pyscheduler_plugins.queues.plugin import Queues
from tests.properties.state_steps import scripts
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import RACK, VOLCANO, Gang, Manifest, annotated, gang, node, pod, queue

PARENT = "p"
PARENTS = {"q0": "", "q1": "", "q2": PARENT, "q3": PARENT}
"""Parent of each queue with jobs."""
QUEUE_NAMES = [PARENT, *PARENTS]
MILLI = 1000
HUGE = 1 << 40


class QueueSpec(NamedTuple):
    """Fields of a queue; -1 for amounts that are not set."""

    weight: int = 1
    guarantee: int = -1
    deserved: int = -1
    capability: int = -1
    reclaimable: bool = True
    min_run: int = -1
    """Seconds that its pods run before other queues reclaim them."""

    def manifest(self, name: str) -> Manifest:
        amounts = {"guarantee": self.guarantee, "deserved": self.deserved, "capability": self.capability}
        spec: dict[str, Any] = {field: {"cpu": n} for field, n in amounts.items() if n >= 0}
        parent = PARENTS.get(name, "")
        made = queue(name, parent=parent, weight=self.weight, reclaimable=self.reclaimable, **spec)
        return annotated(made, reclaim_min_run_seconds=str(self.min_run)) if self.min_run >= 0 else made


class Job(NamedTuple):
    """A pod group; one of one pod is a pod group too."""

    delay: int = 0
    """Seconds after the step before."""
    queue: str = "q0"
    minimum: int = 1
    surplus: int = 0
    cpu: int = 1
    priority: int = 0
    has_roles: bool = False
    """True if the last pod is a driver, of which one is needed."""
    in_one_rack: bool = False
    min_resources: int = 0
    """Cpus that must be free before it starts, 0 for no field."""
    grace: int = 0
    """Seconds that an evicted pod takes to end."""

    @property
    def size(self) -> int:
        return self.minimum + self.surplus

    def create(self, name: str) -> Gang:
        pods = [pod(f"{name}-{i}", self.cpu, priority=self.priority) for i in range(self.size)]
        fields = {"min_resources": {"cpu": self.min_resources}} if self.min_resources else {}
        group = gang(name, self.minimum, pods, VOLCANO, self.queue, **fields)
        if self.has_roles:
            group.objects[-1]["spec"]["minTaskMember"] = {"driver": 1, "worker": self.minimum - 1}
        return Gang(name, self.minimum, [self._annotate(i, each) for i, each in enumerate(group.pods)], group.objects)

    def _annotate(self, i: int, member: Manifest) -> Manifest:
        annotations = {"ends_after": str(self.grace)} if self.grace else {}
        if self.in_one_rack:
            annotations["pod_group_required_topology"] = RACK
        changed = annotated(member, **annotations)
        if self.has_roles:
            changed["metadata"]["annotations"]["volcano.sh/task-spec"] = "driver" if i == self.size - 1 else "worker"
        return changed


class Change(NamedTuple):
    """End or deletion of a job, or new fields of a queue."""

    delay: int
    what: str
    number: int
    spec: QueueSpec


class Case(NamedTuple):
    """A cluster and what happens in it."""

    racks: tuple[tuple[int, ...], ...]
    """Cpus of the nodes of each rack."""
    queues: tuple[QueueSpec, ...]
    steps: tuple[Job | Change, ...]

    @property
    def capacity(self) -> int:
        return sum(map(sum, self.racks))


@st.composite
def queue_specs(draw: st.DrawFn) -> QueueSpec:
    capability = draw(st.sampled_from([-1, -1, -1, -1, 4, 6]))
    deserved = draw(st.sampled_from([-1, -1, 0, 2, 3, 5]))
    if capability >= 0:
        deserved = min(deserved, capability)
    guarantee = draw(st.sampled_from([-1, -1, 1, 2]))
    limits = [n for n in (deserved, capability) if n >= 0]
    return QueueSpec(
        draw(st.integers(0, 3)),
        min([guarantee, *limits]),
        deserved,
        capability,
        draw(st.sampled_from([True, True, False])),
        draw(st.sampled_from([-1, -1, -1, 0, 6])),
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    minimum, cpu = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2]))
    return Job(
        draw(st.integers(0, 4)),
        draw(st.sampled_from(["q0", "q0", *PARENTS])),
        minimum,
        draw(st.sampled_from([0, 0, 1, 2])),
        cpu,
        draw(st.sampled_from([0, 0, 10])),
        minimum > 1 and draw(st.booleans()),
        draw(st.sampled_from([False, False, False, True])),
        draw(st.sampled_from([0, 0, 0, minimum * cpu])),
        draw(st.sampled_from([0, 0, 3])),
    )


CHANGES = st.builds(
    Change, st.integers(0, 4), st.sampled_from(["end", "end", "delete", "queue"]), st.integers(0, 7), queue_specs()
)
RACKS = st.lists(st.lists(st.integers(2, 3), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2).map(tuple)
QUEUES = st.tuples(*[queue_specs()] * (len(PARENTS) + 1))


def cases(steps: st.SearchStrategy[Job | Change], longest: int = 12) -> st.SearchStrategy[Case]:
    """Generate cases with these steps."""
    return st.builds(Case, RACKS, QUEUES, scripts(steps, longest).map(tuple))


@cache
def config() -> LoadedConfig:
    return load(CONFIG)


class BatchCluster(Cluster):
    """Checks at every instant; evicted pods start from the beginning."""

    def __init__(self, case: Case) -> None:
        self.jobs: dict[str, Job] = {}
        self.groups: dict[str, Gang] = {}
        self.specs: dict[str, QueueSpec] = {}
        self._allocated_before = Counter[str]()
        self._racks = {f"n{r}{i}": f"r{r}" for r, rack in enumerate(case.racks) for i in range(len(rack))}
        cpus = [cpu for rack in case.racks for cpu in rack]
        nodes = [node(name, cpu, {RACK: rack}) for (name, rack), cpu in zip(self._racks.items(), cpus, strict=True)]
        super().__init__(*nodes, config=config())
        for name, spec in zip(QUEUE_NAMES, case.queues, strict=True):
            self.set_queue(name, spec)

    def set_queue(self, name: str, spec: QueueSpec) -> None:
        self.specs[name] = spec
        self.apply(spec.manifest(name))

    def start(self, name: str, job: Job, runs: float = 0) -> None:
        """Create a job."""
        self.jobs[name], self.groups[name] = job, job.create(name)
        self.submit(self.groups[name], runs=runs)

    def do(self, number: int, step: Job | Change) -> None:
        """Start a job, or change something that exists."""
        self.advance(step.delay)
        if isinstance(step, Job):
            self.start(f"j{number}", step)
        elif step.what == "queue":
            names = list(self.specs)
            self.set_queue(names[step.number % len(names)], step.spec)
        elif self.groups:
            self._finish(list(self.groups)[step.number % len(self.groups)], step.what)
        self.run()

    def _finish(self, name: str, what: str) -> None:
        if what == "delete":
            del self.jobs[name]
            self.delete_all(self.groups.pop(name))
        elif self.running_of(name):
            self.exempt(self.groups[name])
            for key in self.running_of(name):
                self.end(key.partition("/")[2])

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object. A pod that was evicted, and is to be created anew, does not exist."""
        self._recreations.pop(f"{namespace}/{name}", None)
        if kind != "Pod" or f"{namespace}/{name}" in self.pods:
            super().delete(kind, name, namespace)

    def running_of(self, name: str) -> list[str]:
        """Return the keys of the job's pods that have a node and neither have ended nor are terminating."""
        return [key for key in self.groups[name].keys if self._is_bound(key) and self.phase(key) != "Succeeded"]

    def running(self, gang: Gang) -> int:
        return len(self.running_of(gang.name))

    def counts(self) -> dict[str, int]:
        """Return the number of running pods of each job."""
        return {name: len(self.running_of(name)) for name in self.groups}

    def allocated(self) -> Counter[str]:
        """Return the allocated milli-cores of each queue."""
        used = Counter[str]()
        for name, job in self.jobs.items():
            for each in path(job.queue):
                used[each] += len(self.running_of(name)) * job.cpu * MILLI
        return used

    # -- what holds at every instant ---------------------------------------------------------------------------------

    def _check_instant(self) -> None:
        super()._check_instant()
        for name, job in self.jobs.items():
            self._check_group(name, job)
        allocated = self.allocated()
        for name, job in self.jobs.items():
            for each in path(job.queue):
                allocated[each] += len(self._terminating_of(name)) * job.cpu * MILLI
        for name, amount in allocated.items():
            limit = self.specs[name].capability * MILLI
            assert limit < 0 or amount <= max(limit, self._allocated_before[name]), f"queue {name} has {amount}"
        self._allocated_before = allocated

    def _terminating_of(self, name: str) -> list[str]:
        """Return the keys of the job's pods that have a node and are terminating."""
        pods = ((key, self.pods[key].manifest) for key in self.groups[name].keys if key in self.pods)
        return [key for key, each in pods if "deletionTimestamp" in each["metadata"] and each["spec"].get("nodeName")]

    def _check_group(self, name: str, job: Job) -> None:
        bound = [key for key in self.groups[name].keys if self._is_bound(key)]
        if name in self._broken or not bound:
            return
        assert not job.has_roles or f"default/{name}-{job.size - 1}" in bound, f"{name} runs without its driver"
        racks = {self._racks[self.bindings[key]] for key in self.running_of(name)}
        assert not job.in_one_rack or len(racks) <= 1, f"{name} runs in {racks}"

    # -- evictions -----------------------------------------------------------------------------------------------------

    def _execute(self, commands: Sequence[Command]) -> None:
        evictions = [command for command in commands if isinstance(command, Evict)]
        if evictions:
            self._check_victims(_job_of(evictions[0].preemptor.key), [command.victim.key for command in evictions])
        super()._execute(commands)

    def _evict(self, command: Evict) -> None:
        super()._evict(command)
        self.started.pop(command.victim.key, None)

    def _check_victims(self, preemptor: str, victims: list[str]) -> None:
        """Fail if a bundle is evicted without need, or one that leaves its queue less than is guaranteed."""
        by_job = defaultdict[str, list[str]](list)
        for key in victims:
            by_job[_job_of(key)].append(key)
        assert self._fits(preemptor, set(victims)), f"{preemptor} does not fit without {victims}"
        for name, keys in by_job.items():
            oldest = sorted(
                self.running_of(name), key=lambda key: (self.started[key], self.groups[name].keys.index(key))
            )
            rest = len(oldest) - len(keys)
            self._check_run_times(preemptor, name, keys if rest else oldest[:1])
            existing = [key for key in self.groups[name].keys if key in self.pods]
            ended = sum(self.phase(key) == "Succeeded" for key in existing)  # these count, too
            is_whole = rest + ended >= self.jobs[name].minimum
            assert rest == 0 or is_whole, f"{rest} of {self.jobs[name].minimum} {name} are left"
            bundles = [{key} for key in keys]
            if not rest:
                driver = {key for key in oldest if self.jobs[name].has_roles and key == self.groups[name].keys[-1]}
                others = [key for key in oldest if key not in driver]
                bundles = [driver.union(others[: self.jobs[name].minimum - len(driver)])]
            for bundle in bundles:
                is_unneeded = self._fits(preemptor, set(victims) - bundle) and not self._frees_quota(preemptor, name)
                assert not is_unneeded, f"{bundle} are evicted without need"
        self._check_guarantees(self.jobs[preemptor].queue, by_job)

    def _check_run_times(self, preemptor: str, name: str, keys: list[str]) -> None:
        """Fail if pods are reclaimed before they have run for the time of their queue; start times are full seconds."""
        in_queue = self.jobs[name].queue
        if in_queue == self.jobs[preemptor].queue:
            return
        least = next((n for each in path(in_queue) if (n := self.specs[each].min_run) >= 0), 0)
        for key in keys:
            assert self.time - self.started[key] > least - 1, f"{key} is reclaimed before it has run for {least} s"

    def _frees_quota(self, preemptor: str, victim: str) -> bool:
        """Return True if a limit of a queue that both jobs belong to keeps the job from starting beside this one."""
        job, quota = self.jobs[preemptor], self.machine.context.groups.quota
        assert isinstance(quota, Queues)
        needed = max(1, job.minimum - len(self.running_of(preemptor))) * job.cpu * MILLI
        limits = {name: self.specs[name].capability * MILLI for name in path(job.queue)}
        limits = {name: limit for name, limit in limits.items() if limit >= 0}
        others = {name: other for name, other in self.jobs.items() if other.queue != job.queue}
        if any(len(self.running_of(name)) < other.size for name, other in others.items()):
            # Above its share, a queue leaves to others what they have a claim to.
            limits[job.queue] = min(limits.get(job.queue, HUGE), quota.tree.deserved(job.queue).get("cpu", 0))
        allocated = self.allocated()
        for nominated in self._nominated():
            if (name := _job_of(nominated.key)) != preemptor:
                allocated.update(dict.fromkeys(path(self.jobs[name].queue), self.jobs[name].cpu * MILLI))
        shared = path(self.jobs[victim].queue)
        return any(name in shared and allocated[name] + needed > limit for name, limit in limits.items())

    def _fits(self, preemptor: str, removed: set[str]) -> bool:
        """Return True if the job's minimum fits once these pods are gone, and all that are terminating."""
        job = self.jobs[preemptor]
        free = {name: int(self.nodes[name]["status"]["allocatable"]["cpu"]) for name in self._racks}
        for name, other in self.jobs.items():
            for key in self.running_of(name):
                if key not in removed:
                    free[self.bindings[key]] -= other.cpu
        for nominated in self._nominated():
            if _job_of(nominated.key) != preemptor:
                node_name = self.machine.context.queue.nominator.nominated_node(nominated)
                free[node_name] -= self.jobs[_job_of(nominated.key)].cpu
        needed = max(1, job.minimum - len(self.running_of(preemptor)))
        racks = defaultdict[str, int](int)
        for name, room in free.items():
            racks[self._racks[name] if job.in_one_rack else ""] += max(0, room) // job.cpu
        return any(count >= needed for count in racks.values())

    def _nominated(self) -> list[Pod]:
        """Return the pods for which others are being evicted."""
        nominator = self.machine.context.queue.nominator
        return [each for name in list(nominator.nodes()) for each in nominator.pods_on(name)]

    def _check_guarantees(self, queue_name: str, by_job: dict[str, list[str]]) -> None:
        if self._guaranteed() > self._capacity():
            return  # each queue is guaranteed less than it declares then
        taken = Counter[str]()
        for name, keys in by_job.items():
            for each in path(self.jobs[name].queue):
                if each not in path(queue_name):
                    taken[each] += len(keys) * self.jobs[name].cpu * MILLI
        allocated = self.allocated()
        for nominated in self._nominated():
            job = self.jobs[_job_of(nominated.key)]
            for above in path(job.queue):
                allocated[above] += job.cpu * MILLI
        for name, amount in taken.items():
            assert self.specs[name].reclaimable, f"queue {name} is not reclaimable"
            assert allocated[name] - amount >= self.specs[name].guarantee * MILLI, f"queue {name} has a guarantee"

    def _guaranteed(self) -> int:
        """Return the cpus that are guaranteed to all queues together; those of a parent include its children's."""
        declared = {name: max(spec.guarantee, 0) for name, spec in self.specs.items()}
        of_children = sum(declared[name] for name, parent in PARENTS.items() if parent)
        return max(declared[PARENT], of_children) + sum(
            declared[name] for name, parent in PARENTS.items() if not parent
        )

    def _capacity(self) -> int:
        return sum(int(each["status"]["allocatable"]["cpu"]) for each in self.nodes.values())


def path(queue_name: str) -> list[str]:
    """Return the queue and the one above it."""
    return [each for each in (queue_name, PARENTS[queue_name]) if each]


def _job_of(key: str) -> str:
    return key.partition("/")[2].partition("-")[0]
