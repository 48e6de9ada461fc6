"""Pod groups: pods that are scheduled together, by a scheduling.k8s.io PodGroup (KEP-4671) or its equivalents."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from pyscheduler.api.argument_checks import check_argument, check_items, check_mapping
from pyscheduler.api.events import ResourceKind
from pyscheduler.api.nodes import Ints, NodeTable
from pyscheduler.api.pod import Pod
from pyscheduler.api.resources import Amounts


class PodGroupKey(NamedTuple):
    """Identity of a pod group. Groups of different APIs with one name are different groups."""

    namespace: str
    name: str
    api: str = ""
    """API group of the PodGroup object; "" or the UID of a controller if annotations of the pods declare the group."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class DisruptionMode(enum.StrEnum):
    """Which pods of a group preemption may evict (spec.disruptionMode)."""

    SINGLE = "Single"
    """Each pod above the minimum by itself; those that the group needs together."""
    POD = "Pod"
    """Each pod by itself, also those that the group needs, as in kube-scheduler."""
    ALL = "All"
    """All or none."""


_FUNCTION: Final[tuple[Any, str]] = ((NoneType, Callable), "a function or None")


class TopologyConstraint(Struct, frozen=True):
    """Topology in which the pods of a group are placed in one domain (schedulingConstraints.topology)."""

    key: str
    """Node label with the domain; with `domains`, the name of the topology in messages."""
    required: bool = True
    """True if all pods must be in one domain; False if that is preferred."""
    domains: Callable[[NodeTable], Ints] | None = None
    """Returns the number of each node's domain, `topology.NO_DOMAIN` for none; None: the values of the label."""

    def __post_init__(self) -> None:
        check_argument("TopologyConstraint", "key", self.key, str, "a str")
        check_argument("TopologyConstraint", "required", self.required, bool, "True or False")
        check_argument("TopologyConstraint", "domains", self.domains, *_FUNCTION)


class EvictionRank(enum.IntEnum):
    """Importance among eviction units of one priority, the least important first."""

    SURPLUS = 0
    """A pod above the minimum of its group."""
    SINGLE_POD = 1
    GROUP = 2
    """A whole group; its surplus pods are units as well."""


class EvictionUnit(Struct, frozen=True):
    """Pods that are evicted together or not at all."""

    pods: tuple[Pod, ...]
    """The newest first."""
    priority: int
    rank: EvictionRank
    started: float
    """Start of the newest pod, in seconds since 1970; infinity if it has not started."""
    group: PodGroupKey | None = None
    """Group of the pods; None for a single pod."""

    @property
    def importance(self) -> tuple[int, int, float]:
        """Sort key: the least important unit is the smallest."""
        return self.priority, self.rank, -self.started


class PodGroup(Struct, frozen=True):
    """Requirements of a pod group, whichever API declares it."""

    key: PodGroupKey
    min_count: int
    """Number of pods below which none is scheduled; at least 1. Running and succeeded pods count."""
    min_count_by_role: Mapping[str, int] = field(default_factory=dict)
    """Minimum for each role (Volcano's minTaskMember)."""
    min_resources: Amounts = field(default_factory=dict)
    """Resources that must be free before the first pod is scheduled; empty for none."""
    priority: int | None = None
    """Priority of the group, which replaces that of its pods; None: the least of their priorities."""
    may_preempt: bool = True
    """False if the preemptionPolicy of the group is Never."""
    disruption_mode: DisruptionMode = DisruptionMode.SINGLE
    queue: str = ""
    """Queue that the group is scheduled from; "" for the default."""
    topology: tuple[TopologyConstraint, ...] = ()
    stale_grace_seconds: float | None = None
    """Seconds after which the pods of a started group are evicted if it lacks its minimum; None for never."""
    created: str = ""
    """metadata.creationTimestamp of the object; "" if there is none."""
    uid: str = ""
    """metadata.uid of the object; "" if there is none."""
    kind: ResourceKind | None = None
    """Kind of the object, to which the scheduler writes a condition; None if there is none."""
    condition_type: str = "Scheduled"
    """Type of that condition."""
    failure_condition_type: str = ""
    """Type of the condition that is True if the group cannot be scheduled (Volcano); "" if the other one is False."""
    subgroups: tuple[PodGroup, ...] = ()
    """Parts of the group that are scheduled as a whole or not at all, with keys of their own; they may have parts, too.

    Of a subgroup, `min_count`, `topology`, `disruption_mode` and its object are read. The nodes of its pods are in one
    domain of its topology, within the domain of the group around it. `min_count` of 0 is allowed.
    """
    min_subgroups: int = 0
    """Number of subgroups below which no pod of the group is scheduled."""
    subgroup_of: Callable[[Pod], PodGroupKey | None] | None = None
    """Returns the subgroup that a pod is in; None for a pod in no subgroup. None if there are no subgroups."""
    error: str = ""
    """Why no pod of the group can be scheduled: each attempt ends in this error. "" if they can."""
    has_kubernetes_messages: bool = False
    """True if the messages of the group and of its pods are those of kube-scheduler's pod group cycle."""
    accounts: tuple[str, ...] = ()
    """Users and groups of users that the usage counts toward, by `QuotaPlugin.accounts_of`."""

    def __post_init__(self) -> None:
        for name, types, expected in _FIELDS:
            if not isinstance(value := getattr(self, name), types):
                check_argument("PodGroup", name, value, types, expected)
        check_items("PodGroup", "key", tuple(self.key), str, "a PodGroupKey of strs")
        for name, check, types, expected in _COLLECTIONS:
            if (value := getattr(self, name)) not in ((), {}):
                check("PodGroup", name, value, types, expected)

    def shortage(self, roles: Collection[str]) -> str:
        """Return what pods with these roles, one for each pod, lack of the minimums, as text; "" if nothing."""
        if len(roles) < self.min_count:
            return f"{len(roles)} of the {self.min_count} pods"
        counts = Counter(roles) if self.min_count_by_role else {}
        for role, least in self.min_count_by_role.items():
            if (count := counts.get(role, 0)) < least:
                return f'{count} of the {least} pods with role "{role}"'
        return ""


_STRS: Final = ("queue", "created", "uid", "condition_type", "failure_condition_type", "error")
_FIELDS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("key", PodGroupKey, "a PodGroupKey"),
    ("min_count", int, "an int"),
    ("priority", (int, NoneType), "an int or None"),
    ("may_preempt", bool, "True or False"),
    ("disruption_mode", DisruptionMode, "a DisruptionMode"),
    ("stale_grace_seconds", (int, float, NoneType), "a number or None"),
    ("kind", (ResourceKind, NoneType), "a ResourceKind or None"),
    ("min_subgroups", int, "an int"),
    ("subgroup_of", *_FUNCTION),
    ("has_kubernetes_messages", bool, "True or False"),
    *((name, str, "a str") for name in _STRS),
)
"""Name, valid types and their text of the fields of a PodGroup that are not collections."""
_COLLECTIONS: Final[tuple[tuple[str, Callable[..., None], type, str], ...]] = (
    ("min_count_by_role", check_mapping, int, "a mapping of roles to ints"),
    ("min_resources", check_mapping, int, "a mapping of resources to ints"),
    ("topology", check_items, TopologyConstraint, "a tuple of TopologyConstraints"),
    ("subgroups", check_items, PodGroup, "a tuple of PodGroups"),
    ("accounts", check_items, str, "a tuple of strs"),
)
