"""Reclaim by its definition: all sets of bundles are tried; and a cluster in which evicted pods wait again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from pyscheduler.api.steps import exhaust
from pyscheduler_plugins.queues.bundles import Bundle, RunningPod, bundles_of
from pyscheduler_plugins.queues.reclaim import find_victims
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree

Amounts = dict[str, int]
Cost = tuple[int, int, int, int, float]


@dataclass
class Request:
    """A request of a queue, and the bundles that may be evicted for it."""

    tree: QueueTree
    queue: str
    amounts: Amounts
    free: Amounts
    bundles: list[Bundle]

    def __post_init__(self) -> None:
        self.missing = {r: n - self.free.get(r, 0) for r, n in self.amounts.items() if n > self.free.get(r, 0)}
        path = self.tree.path(self.queue)
        full = [name for name in path[:-1] if self.exceeds_deserved(name)]
        self._affected: dict[str, list[str]] = {}
        self._over: dict[str, Amounts] = {}
        for name in self.tree:
            above = self.tree.path(name)
            affected = [each for each in above if each not in path]
            is_reclaimable = all(self.tree.queue(each).reclaimable for each in affected)
            is_within = all(each in above for each in full)
            self._affected[name] = affected if is_reclaimable and is_within else []
            self._over[name] = {r: n for r, n in self.tree.over_deserved(name).items() if r in self.missing}

    def exceeds_deserved(self, queue: str) -> bool:
        """Return True if the request would take a queue above its deserved amounts."""
        allocated, deserved = self.tree.allocated(queue), self.tree.deserved(queue)
        return any(n > 0 and allocated.get(r, 0) + n > deserved.get(r, 0) for r, n in self.amounts.items())

    def affected(self, bundle: Bundle) -> list[str]:
        """Return the queues that the bundle may be taken from: those that are not above the requesting one as well."""
        return self._affected[bundle.queue]

    def over(self, queue: str, without: Sequence[Bundle] = ()) -> Amounts:
        """Return what the queue has above its deserved amounts of missing resources, less the bundles."""
        over = self._over[queue]
        for bundle in without:
            if queue in self.affected(bundle):
                over = {r: n - bundle.resources.get(r, 0) for r, n in over.items()}
        return over

    def may_evict(self, bundle: Bundle) -> bool:
        """Return True if all its queues have more than they deserve of something that it frees."""
        queues = self.affected(bundle)
        return bool(queues) and all(
            any(n > 0 and bundle.resources.get(r, 0) > 0 for r, n in self.over(name).items()) for name in queues
        )

    def below(self, chosen: Sequence[Bundle]) -> int:
        """Return the number of queues that the bundles take below their deserved amounts."""
        queues = {name for bundle in chosen for name in self.affected(bundle)}
        return sum(any(n < 0 for n in self.over(name, chosen).values()) for name in queues)

    def has_last(self, queue: str, chosen: Sequence[Bundle]) -> bool:
        """Return True if the queue keeps its deserved amounts until the last one of its bundles is taken."""
        taken = [bundle for bundle in chosen if queue in self.affected(bundle)]
        if all(n >= 0 for n in self.over(queue, taken).values()):
            return True
        rests = [(last, self.over(queue, [each for each in taken if each is not last])) for last in taken]
        return any(
            all(n >= 0 for n in rest.values()) and any(n > 0 and last.resources.get(r, 0) > 0 for r, n in rest.items())
            for last, rest in rests
        )

    def keeps_guarantees(self, chosen: Sequence[Bundle]) -> bool:
        for name in {name for bundle in chosen for name in self.affected(bundle)}:
            taken = [bundle for bundle in chosen if name in self.affected(bundle)]
            for resource, declared in self.tree.guarantee(name).items():
                guarantee = min(declared, self.tree.deserved(name).get(resource, 0))
                freed = sum(bundle.resources.get(resource, 0) for bundle in taken)
                if freed and self.tree.allocated(name).get(resource, 0) - freed < guarantee:
                    return False
        return True

    def serves(self, chosen: Sequence[Bundle]) -> bool:
        """Return True if the set may be evicted and frees enough."""
        whole = [bundle.job for bundle in chosen if bundle.is_whole]
        surplus = {bundle.job for bundle in chosen if not bundle.is_whole}
        return (
            self.frees_enough(chosen)
            and not surplus & set(whole)
            and all(map(self.may_evict, chosen))
            and self.keeps_guarantees(chosen)
            and all(self.has_last(name, chosen) for name in {n for bundle in chosen for n in self.affected(bundle)})
        )

    def frees_enough(self, chosen: Sequence[Bundle]) -> bool:
        return all(sum(b.resources.get(r, 0) for b in chosen) >= n for r, n in self.missing.items())

    def cost(self, chosen: Sequence[Bundle]) -> Cost:
        excess = sum((sum(b.resources.get(r, 0) for b in chosen) - n) / n for r, n in self.missing.items())
        return (
            self.below(chosen),
            sum(bundle.is_whole for bundle in chosen),
            max((bundle.priority for bundle in chosen), default=0),
            sum(len(bundle.pods) for bundle in chosen),
            excess,
        )

    def least_cost(self) -> Cost | None:
        """Return the cost of the best set of all, None if no set serves."""
        if self.exceeds_deserved(self.queue):
            return None
        bundles = [bundle for bundle in self.bundles if self.may_evict(bundle)]
        sets = (chosen for size in range(len(bundles) + 1) for chosen in combinations(bundles, size))
        return min((self.cost(chosen) for chosen in sets if self.serves(chosen)), default=None)


@dataclass
class ElasticJob:
    """A job of equal pods that runs with at least `minimum` of them."""

    name: str
    queue: str
    size: int
    minimum: int
    cpu: int
    running: list[RunningPod] = field(default_factory=list)

    @property
    def next_start(self) -> int:
        """Number of pods that must start together."""
        return min(1, self.size - len(self.running)) if self.running else self.minimum


class ReclaimingCluster:
    """A cluster without running time: jobs start where there is room, or reclaim it; evicted pods wait again."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.jobs: dict[str, ElasticJob] = {}
        self.evictions: list[str] = []
        self._started = 0

    def add(self, job: ElasticJob) -> None:
        """Create a job; none of its pods runs yet."""
        self.jobs[job.name] = job
        self._account(job)

    def settle(self, rounds: int) -> bool:
        """Start all jobs that can start, again and again. Return True if the cluster came to rest."""
        return any(not self._run_once() for _ in range(rounds))

    def _run_once(self) -> bool:
        ordered = sorted(self.jobs.values(), key=lambda job: (self.tree.order_key(job.queue), job.name))
        return sum(map(self._start, ordered)) > 0

    def _start(self, job: ElasticJob) -> bool:
        count = job.next_start
        request = {"cpu": count * job.cpu}
        if not count or self.tree.allows(job.queue, request):
            return False
        free = {"cpu": self.tree.capacity()["cpu"] - self.tree.allocated("root").get("cpu", 0)}
        if free["cpu"] < request["cpu"]:
            bundles = [b for j in self.jobs.values() for b in bundles_of(j.name, j.queue, j.running, j.minimum)]
            found = exhaust(find_victims(self.tree, job.queue, request, free, bundles))
            if found.reason:
                return False
            for bundle in found.victims:
                self._evict(bundle)
        for _ in range(count):
            self._started += 1
            job.running.append(RunningPod(f"{job.name}/{self._started}", {"cpu": job.cpu}, float(self._started)))
        self._account(job)
        assert self.tree.allocated("root").get("cpu", 0) <= self.tree.capacity()["cpu"]
        return True

    def _evict(self, bundle: Bundle) -> None:
        job = self.jobs[bundle.job]
        self.evictions += bundle.pods
        job.running = [pod for pod in job.running if pod.name not in bundle.pods]
        assert not job.running or len(job.running) >= job.minimum
        self._account(job)

    def _account(self, job: ElasticJob) -> None:
        running = len(job.running)
        self.tree.set_usage(
            job.name, job.queue, JobUsage({"cpu": running * job.cpu}, {"cpu": (job.size - running) * job.cpu})
        )
