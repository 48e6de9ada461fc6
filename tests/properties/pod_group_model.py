"""Pod groups driven by random events, checked against an independent model of what fits.

After every step no group may be partly bound because of this scheduler. In the end, nothing that fits may be pending:
the nodes and groups are few enough to try every placement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Final

from hypothesis import strategies as st

from pyscheduler.api.resources import amount
from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Evict
from pyscheduler.testing import Harness
from tests.properties.described import describe
from tests.properties.state_steps import scripts
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import ANNOTATIONS, NATIVE, VOLCANO, Manifest, annotated, gang, node, pod

CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [PLUGINS]}}
---
apiVersion: pyscheduler.io/v1
kind: PySchedulerConfiguration
resultCache: STATE
"""
Step = tuple[str, int, int]
"""Kind of event, number of the pod, group or node, and variant."""

_MEMBERS = (*("members_of",) * 4, *("member",) * 3, "gated", "ungate", "leave")
_PODS = ("single", "single", "delete", "succeed", "fail")
_OBJECTS = ("object", "object", "undeclare")
_NODES = ("node", "node", "drop")
_BINDINGS = ("hold", "finish", "refuse")
_REST = ("restart", "time", "time", "time")
WHAT: Final = (*_MEMBERS, *_PODS, *_OBJECTS, *_NODES, *_BINDINGS, *_REST)
STEPS: Final = scripts(st.tuples(st.sampled_from(WHAT), st.integers(0, 11), st.integers(0, 11)), longest=24)
RECONFIGURED: Final = scripts(
    st.tuples(st.sampled_from((*WHAT, "disable", "enable", "enable")), st.integers(0, 11), st.integers(0, 11)),
    longest=24,
)
CALM: Final = 60.0
"""Virtual seconds after which everything that fits is bound."""

_APIS = (ANNOTATIONS, NATIVE, VOLCANO)
_ENDED = ("Succeeded", "Failed")


@cache
def config(*, groups: bool = True, result_cache: str = "On") -> LoadedConfig:
    """Return the configuration with or without the plugin PodGroups."""
    return loads(CONFIG.replace("PLUGINS", "{name: PodGroups}" if groups else "").replace("STATE", result_cache))


class Uncontrolled(Cluster):
    """Cluster without controllers: evicted pods are not created anew."""

    def _evict(self, command: Evict) -> None:
        Harness._evict(self, command)


@dataclass
class Group:
    """What has been created of a group."""

    name: str
    api: str
    minimum: int = 2
    is_declared: bool = False
    """True if its PodGroup exists; always for annotations."""
    priority: int = 0
    left: set[str] = field(default_factory=set)
    """Names of pods that are not members any more."""


class PodGroupModel:
    """Run steps one by one; attempts and all checks follow each step."""

    def __init__(self, loaded: LoadedConfig | None = None) -> None:
        self.cluster = Uncontrolled(config=loaded or config())
        self.groups = [Group(name, api, is_declared=api == ANNOTATIONS) for name, api in zip("abc", _APIS, strict=True)]
        self._exempt: set[str] = set()
        """Groups that are partly bound because of something else than this scheduler."""
        self._plugin_enabled = True
        for i in range(2):
            self._node(i, 1)

    def do(self, step: Step) -> None:
        what, number, kind = step
        getattr(self, f"_{what}")(number, kind)
        self.cluster.run()
        self.check_groups()

    def commands(self) -> list[str]:
        """Return all commands so far as text."""
        return [describe(command) for command in self.cluster.commands]

    def calm_down(self) -> None:
        """Complete all bindings and let time pass."""
        self._finish(0, 0)
        self.cluster.advance(CALM)
        self.check_groups()

    # -- checks ----------------------------------------------------------------------------------------------------

    def check_groups(self) -> None:
        """Fail if a group has some members with a node, but fewer than its minimum, because of this scheduler."""
        nodes = {"n", *self.cluster.nodes}
        for group in self.groups:
            started = self._started(group)
            running = any(self._has_node(each) and not _has_ended(each) for each in self._members(group))
            on_lost_node = any((self._node_of(each) or "n") not in nodes for each in self._members(group))
            if not running or (started >= group.minimum and not on_lost_node):
                self._exempt.discard(group.name)
            elif (
                self._plugin_enabled
                and group.is_declared
                and started < group.minimum
                and group.name not in self._exempt
            ):
                raise AssertionError(f"{started} of {group.minimum} pods of {group.name} have a node")

    def missed(self) -> list[str]:
        """Return the groups and single pods that fit into what is free, and are pending."""
        free = self._free()
        missed = []
        for group in self.groups:
            pending = [each for each in self._members(group) if self._is_pending(each)]
            started = sum(
                self._has_node(each) and self._node_of(each) in self.cluster.nodes for each in self._members(group)
            )
            needed = max(1, group.minimum - started)  # members on deleted nodes are lost
            if group.is_declared and pending and any_fit([cpu_of(each) for each in pending], needed, free):
                missed.append(group.name)
        members = {each["metadata"]["name"] for group in self.groups for each in self._members(group)}
        for each in self._pods():
            name = each["metadata"]["name"]
            if name not in members and self._is_pending(each) and any(room >= cpu_of(each) for room in free):
                missed.append(name)
        return missed

    def _free(self) -> list[int]:
        used = Counter[str]()
        for each in self._pods():
            if not _has_ended(each):
                used[each["spec"].get("nodeName", "")] += cpu_of(each)
        nodes = self.cluster.nodes.items()
        return [amount("cpu", each["status"]["allocatable"]["cpu"]) - used[name] for name, each in nodes]

    def _started(self, group: Group) -> int:
        """Return the number of members that are bound, being bound, or have succeeded."""
        return sum(self._has_node(each) for each in self._members(group))

    def _has_node(self, each: Manifest) -> bool:
        meta = each["metadata"]
        if "deletionTimestamp" in meta or each.get("status", {}).get("phase") == "Failed":
            return False
        return bool(self._node_of(each))

    def _node_of(self, each: Manifest) -> str:
        """Return the node that a pod is bound to, or is being bound to; "" if there is none."""
        meta = each["metadata"]
        binding = self.cluster.pending_bindings.get(f"default/{meta['name']}")
        being_bound = binding.node_name if binding is not None and binding.pod.uid == meta["uid"] else ""
        return str(each["spec"].get("nodeName") or being_bound)

    def _is_pending(self, each: Manifest) -> bool:
        spec = each["spec"]
        ended = _has_ended(each) or "deletionTimestamp" in each["metadata"]
        return not (spec.get("nodeName") or spec.get("schedulingGates") or ended)

    def _pods(self) -> list[Manifest]:
        return [built.manifest for built in self.cluster.pods.values()]

    def _members(self, group: Group) -> list[Manifest]:
        names = {f"{group.name}{i}" for i in range(4)} - group.left
        return [each for each in self._pods() if each["metadata"]["name"] in names]

    # -- pods of groups --------------------------------------------------------------------------------------------

    def _group(self, number: int) -> Group:
        return self.groups[number % len(self.groups)]

    def _manifest(self, group: Group, i: int, cpu: int) -> Manifest:
        """Return a member. Its evicted pod ends after a while if its number is odd."""
        plain = pod(f"{group.name}{i}", cpu, priority=group.priority)
        if i % 2:
            plain = annotated(plain, ends_after="5")
        [member] = gang(group.name, group.minimum, [plain], group.api).pods
        return member

    def _create(self, group: Group, i: int, cpu: int, *, gated: bool = False) -> None:
        if f"default/{group.name}{i}" in self.cluster.pods:
            return
        group.left.discard(f"{group.name}{i}")
        manifest = self._manifest(group, i, cpu)
        if gated:
            manifest["spec"]["schedulingGates"] = [{"name": "wait"}]
        self.cluster.apply(manifest)

    def _member(self, number: int, kind: int) -> None:
        """Create a member unless it exists."""
        self._create(self._group(number), kind % 4, (1, 1, 2)[kind % 3])

    def _members_of(self, number: int, kind: int) -> None:
        """Create as many members as the group needs, or one more."""
        group = self._group(number)
        if not self._members(group):
            group.priority = (0, 0, 10)[kind % 3]
        for i in range(group.minimum + kind % 2):
            self._create(group, i, (1, 1 + i % 2, 2)[kind % 3])

    def _gated(self, number: int, kind: int) -> None:
        self._create(self._group(number), kind % 4, 1, gated=True)

    def _ungate(self, number: int, kind: int) -> None:
        if each := self._pick(number, lambda each: "schedulingGates" in each["spec"]):
            spec = {name: value for name, value in each["spec"].items() if name != "schedulingGates"}
            self.cluster.apply({**each, "spec": spec})

    def _leave(self, number: int, kind: int) -> None:
        """Remove a pod from its group. spec.schedulingGroup is immutable."""
        group = self.groups[(0, 2)[number % 2]]
        name = f"{group.name}{kind % 4}"
        current = self.cluster.pods.get(f"default/{name}")
        if current is not None and name not in group.left and not current.manifest.get("status", {}).get("phase"):
            self._exempt.add(group.name)
            group.left.add(name)
            meta = {**current.manifest["metadata"], "annotations": {}}
            self.cluster.apply({**current.manifest, "metadata": meta})

    def _delete(self, number: int, _: int) -> None:
        if each := self._pick(number):
            self._exempt_group_of(each)
            self.cluster.delete("Pod", each["metadata"]["name"])

    def _succeed(self, number: int, _: int) -> None:
        if each := self._pick(number, self._is_running):
            self.cluster.end(each["metadata"]["name"])

    def _fail(self, number: int, _: int) -> None:
        if each := self._pick(number, self._is_running):
            self._exempt_group_of(each)
            self.cluster.end(each["metadata"]["name"], "Failed")

    def _single(self, number: int, kind: int) -> None:
        """Create a single pod unless it exists."""
        name = f"single{number}"
        if f"default/{name}" not in self.cluster.pods:
            each = pod(name, 1 + kind % 2, priority=(0, 5, 20)[kind % 3])
            self.cluster.apply(annotated(each, ends_after="5") if kind % 4 == 0 else each)

    def _pick(self, number: int, condition: Callable[[Manifest], bool] = bool) -> Manifest | None:
        """Return one of the pods that meet a condition, or None."""
        pods = [each for each in self._pods() if condition(each)]
        return pods[number % len(pods)] if pods else None

    def _is_running(self, each: Manifest) -> bool:
        bound = each["spec"].get("nodeName") and "deletionTimestamp" not in each["metadata"]
        return bool(bound) and not _has_ended(each)

    def _exempt_group_of(self, each: Manifest) -> None:
        self._exempt |= {group.name for group in self.groups if each["metadata"]["name"].startswith(group.name)}

    # -- PodGroups, nodes, bindings, time --------------------------------------------------------------------------

    def _object(self, number: int, kind: int) -> None:
        """Create or update the PodGroup; for annotations, update all pods."""
        group = self._group(number)
        group.minimum, group.is_declared = 1 + kind % 3, True
        self._exempt.add(group.name)
        for each in gang(group.name, group.minimum, 0, group.api).objects:
            self.cluster.apply(each)
        if group.api == ANNOTATIONS:
            for each in self._members(group):
                self.cluster.apply(annotated(each, pod_group_min_count=str(group.minimum)))

    def _undeclare(self, number: int, _: int) -> None:
        group = self._group(number)
        if group.api != ANNOTATIONS and group.is_declared:
            group.is_declared = False
            self._exempt.add(group.name)
            self.cluster.delete(f"PodGroup.{group.api.partition('/')[0]}", group.name)

    def _node(self, number: int, kind: int) -> None:
        self.cluster.apply(node(f"n{number % 4}", (1, 2, 3)[kind % 3]))

    def _drop(self, number: int, _: int) -> None:
        """Delete a node. Its pods stay assigned to it, or being bound, and preemption cannot evict them."""
        name = f"n{number % 4}"
        if name in self.cluster.nodes:
            for each in self._pods():
                if self._node_of(each) == name:
                    self._exempt_group_of(each)
            self.cluster.delete("Node", name)

    def _hold(self, _number: int, _kind: int) -> None:
        """Suspend the bindings that follow."""
        self.cluster.complete_bindings = False

    def _finish(self, _number: int, _kind: int) -> None:
        """Complete the suspended bindings and all that follow."""
        self.cluster.complete_bindings = True
        for key in list(self.cluster.pending_bindings):
            if key in self.cluster.pending_bindings:
                self.cluster.finish_binding(key.partition("/")[2])

    def _refuse(self, number: int, _: int) -> None:
        """Let a suspended binding fail."""
        pending = [key for key in self.cluster.pending_bindings if key in self.cluster.pods]
        if pending:
            key = pending[number % len(pending)]
            self._exempt_group_of(self.cluster.pods[key].manifest)
            self.cluster.binding_error = lambda _pod, _node: "refused"
            self.cluster.finish_binding(key.partition("/")[2])
            self.cluster.binding_error = lambda _pod, _node: ""

    def _restart(self, _number: int, _kind: int) -> None:
        for key in self.cluster.pending_bindings:
            if key in self.cluster.pods:
                self._exempt_group_of(self.cluster.pods[key].manifest)
        self.cluster.restart()

    def _time(self, _number: int, kind: int) -> None:
        self.cluster.advance((0.5, 3.0, 12.0)[kind % 3])

    def _disable(self, _number: int, _kind: int) -> None:
        """Reload the configuration without the plugin."""
        self._plugin_enabled = False
        self.cluster.reconfigure(config(groups=False))

    def _enable(self, _number: int, _kind: int) -> None:
        """Reload the configuration with the plugin. Groups may be partly bound because of the time without it."""
        if not self._plugin_enabled:
            self._exempt |= {group.name for group in self.groups}
        self._plugin_enabled = True
        self.cluster.reconfigure(config())


def _has_ended(each: Manifest) -> bool:
    return each.get("status", {}).get("phase") in _ENDED


def cpu_of(each: Manifest) -> int:
    """Return a pod's request in milli-cores."""
    return amount("cpu", each["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def any_fit(requests: Sequence[int], needed: int, free: Sequence[int]) -> bool:
    """Return True if this many of the requests fit on the nodes together."""
    return any(all_fit(some, free) for some in combinations(requests, needed)) if needed <= len(requests) else False


def all_fit(requests: Sequence[int], free: Sequence[int]) -> bool:
    """Return True if all requests fit on the nodes together, by trying every placement."""
    if not requests:
        return True
    first, *others = requests
    return any(
        all_fit(others, [*free[:i], room - first, *free[i + 1 :]]) for i, room in enumerate(free) if room >= first
    )
