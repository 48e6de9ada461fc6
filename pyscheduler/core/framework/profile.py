"""A compiled profile: plugin instances by extension point, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TypeVar

import msgspec

from pyscheduler.api.events import ANY_RESOURCE, NODE, POD, ClusterEventWithHint, ResourceKind
from pyscheduler.api.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from pyscheduler.api.pod import PodSignature
from pyscheduler.api.pod_group_cycle import (
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
)
from pyscheduler.api.pod_group_plugins import PodGroupPlugin, QuotaPlugin
from pyscheduler.api.preemption import PreemptionPlugin
from pyscheduler.api.reads import Reads
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.commands import BindingPlan
from pyscheduler.core.framework.evaluation_counts import EvaluationCounts
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.texts import text_of

P = TypeVar("P", bound=Plugin)


class Weighted(msgspec.Struct, frozen=True):
    """A Score plugin with its weight in this profile."""

    plugin: ScorePlugin
    weight: int


class WeightedPlacementScore(msgspec.Struct, frozen=True):
    """A PlacementScore plugin with its weight in this profile."""

    plugin: PlacementScorePlugin
    weight: int


class Profile(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The plugins and settings of one `schedulerName`."""

    name: str
    queue_sort: QueueSortPlugin
    pod_group: PodGroupPlugin | None = None
    quota: QuotaPlugin | None = None
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    post_filter: tuple[PostFilterPlugin, ...] = ()
    placement_generate: tuple[PlacementGeneratePlugin, ...] = ()
    placement_feasible: tuple[PlacementFeasiblePlugin, ...] = ()
    placement_score: tuple[WeightedPlacementScore, ...] = ()
    pod_group_post_filter: tuple[PodGroupPostFilterPlugin, ...] = ()
    pre_score: tuple[PreScorePlugin, ...] = ()
    score: tuple[Weighted, ...] = ()
    reserve: tuple[ReservePlugin, ...] = ()
    permit: tuple[PermitPlugin, ...] = ()
    plan: BindingPlan = msgspec.field(default_factory=lambda: BindingPlan((), (), ()))
    percentage_of_nodes_to_score: int | None = None
    """Share of nodes that kube-scheduler's search order evaluates, 0 for the adaptive share; None evaluates every node.
    """
    caches_results: bool = True
    """False runs every plugin in every attempt: no result is kept for the next one."""

    @property
    def points(self) -> Mapping[str, Sequence[Plugin]]:
        """Plugins by extension point."""
        return {
            "QueueSort": (self.queue_sort,),
            "PodGroup": () if self.pod_group is None else (self.pod_group,),
            "Quota": () if self.quota is None else (self.quota,),
            "PreEnqueue": self.pre_enqueue,
            "PreFilter": self.pre_filter,
            "Filter": self.filter,
            "PostFilter": self.post_filter,
            "PlacementGenerate": self.placement_generate,
            "PlacementFeasible": self.placement_feasible,
            "PlacementScore": tuple(s.plugin for s in self.placement_score),
            "PodGroupPostFilter": self.pod_group_post_filter,
            "PreScore": self.pre_score,
            "Score": tuple(s.plugin for s in self.score),
            "Reserve": self.reserve,
            "Permit": self.permit,
            "PreBind": self.plan.pre_bind,
            "Bind": self.plan.bind,
            "PostBind": self.plan.post_bind,
        }

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Every plugin of the profile once."""
        return tuple({plugin.name: plugin for plugins in self.points.values() for plugin in plugins}.values())

    @cached_property
    def signers(self) -> tuple[Plugin, ...]:
        """Plugins of the extension points with cached results, each once."""
        score = tuple(weighted.plugin for weighted in self.score)
        return tuple({p.name: p for p in (*self.pre_filter, *self.filter, *self.pre_score, *score)}.values())

    @cached_property
    def delegating(self) -> tuple[FilterPlugin, ...]:
        """Filter plugins that may leave requested resources to others."""
        default = FilterPlugin.delegated_resources
        return tuple(plugin for plugin in self.filter if type(plugin).delegated_resources is not default)

    @cached_property
    def may_make_room_for_groups(self) -> bool:
        """True if a PodGroupPostFilter plugin may make room on nodes."""
        return any(plugin.makes_room for plugin in self.pod_group_post_filter)

    @cached_property
    def label_readers(self) -> frozenset[str]:
        """Names of the plugins with results that depend on the pod's labels or annotations."""
        return frozenset(plugin.name for plugin in self.plugins if plugin.reads_labels)

    @cached_property
    def annotation_readers(self) -> frozenset[str]:
        """Names of the plugins with cached results that depend on the pod's annotations."""
        return frozenset(plugin.name for plugin in self.signers if plugin.reads_labels and plugin.reads_annotations)

    @cached_property
    def claim_readers(self) -> frozenset[str]:
        """Names of the plugins with results that depend on the pod's claims."""
        return frozenset(plugin.name for plugin in self.plugins if plugin.reads_claims)

    @cached_property
    def named_node_readers(self) -> frozenset[str]:
        """Names of the plugins with results that depend on the nodes named in the pod's node affinity."""
        return frozenset(plugin.name for plugin in self.plugins if plugin.reads_match_fields)

    def readers_of_difference(self, last: PodSignature, signature: PodSignature) -> frozenset[str]:
        """Return the names of the plugins with results that may differ between two signatures of one group."""
        readers: frozenset[str] = frozenset()
        if last.labels != signature.labels:
            readers = self.label_readers
        elif last.annotations != signature.annotations:
            readers = self.annotation_readers
        if last.spec is signature.spec:
            return readers
        if last.spec.volumes != signature.spec.volumes:
            readers |= self.claim_readers
        same = _node_affinity(last) == _node_affinity(signature)
        return readers if same else readers | self.named_node_readers

    @cached_property
    def class_filters(self) -> tuple[FilterPlugin, ...]:
        """The Filter plugins that may be evaluated by class of equivalent nodes, in order."""
        return tuple(plugin for plugin in self.filter if _has_filter_equivalence(plugin))

    @cached_property
    def row_filters(self) -> tuple[FilterPlugin, ...]:
        """The Filter plugins that may be evaluated by row, in order.

        A plugin with a `filter_equivalence` that reads no pods on other nodes is in `class_filters`, too: in attempts
        in which it returns None, the plugin is evaluated by row.
        """
        return tuple(p for p in self.filter if not _has_filter_equivalence(p) or reads_of(p) <= Reads.ALL_NODES)

    @cached_property
    def filter_places(self) -> Mapping[str, int]:
        """Place of each Filter plugin in their order, by name."""
        return {plugin.name: i for i, plugin in enumerate(self.filter)}

    @cached_property
    def class_scores(self) -> tuple[Weighted, ...]:
        """The Score plugins that are evaluated by class of equivalent nodes."""
        return tuple(each for each in self.score if _has_score_equivalence(each.plugin))

    @cached_property
    def row_scores(self) -> tuple[Weighted, ...]:
        """The other Score plugins."""
        return tuple(each for each in self.score if not _has_score_equivalence(each.plugin))

    @cached_property
    def skipped_for_resizes(self) -> frozenset[str]:
        """Names of the Filter plugins that are skipped in attempts for resizes; not all of them have a PreFilter."""
        return frozenset(plugin.name for plugin in self.filter if not plugin.checks_resizes)

    @cached_property
    def row_plugins(self) -> frozenset[str]:
        """Names of the Filter and Score plugins that may be evaluated by row."""
        return frozenset(p.name for p in (*self.row_filters, *(each.plugin for each in self.row_scores)))

    @cached_property
    def preemption(self) -> PreemptionPlugin | None:
        """The first PostFilter plugin that preempts, or None."""
        return next((plugin for plugin in self.post_filter if isinstance(plugin, PreemptionPlugin)), None)

    @cached_property
    def pre_filter_names(self) -> frozenset[str]:
        """Names of the PreFilter plugins."""
        return frozenset(plugin.name for plugin in self.pre_filter)

    @cached_property
    def unlimited_plugins(self) -> frozenset[str]:
        """Names of the PreFilter and Filter plugins with results that may depend on anything."""
        return frozenset(plugin.name for plugin in (*self.pre_filter, *self.filter) if may_read_anything(plugin))

    @cached_property
    def pre_node_readers(self) -> frozenset[str]:
        """Names of the plugins with PreFilter or PreScore results that depend on node objects."""
        return frozenset(plugin.name for plugin in self.plugins if plugin.pre_reads_nodes)

    @cached_property
    def placed_group_readers(self) -> frozenset[str]:
        """Names of the plugins with cached skips that depend on which signature groups have assigned pods."""
        return frozenset(p.name for p in self.plugins if p.skips_read_pods and reads_of(p) >= Reads.DOMAINS)

    @cached_property
    def watchers(self) -> Mapping[ResourceKind, frozenset[str]]:
        """Names of the plugins that read objects of a kind."""
        return {
            kind: frozenset(plugin.name for plugin in self.plugins if kind in plugin.watches) for kind in self.watches
        }

    @cached_property
    def evaluations(self) -> EvaluationCounts:
        """Evaluation counters of its plugins."""
        return EvaluationCounts(self.pre_filter, self.filter, self.pre_score, [each.plugin for each in self.score])

    @property
    def events_to_register(self) -> tuple[tuple[str, ClusterEventWithHint], ...]:
        """Events that may make a pod schedulable after a plugin rejected it, as (plugin name, event).

        A wildcard resource stands for nodes, pods, the kinds that the plugin watches and those that any plugin
        registers events for. It excludes kinds that other plugins only read, such as the ReplicaSets of pods to be
        spread: their status changes all the time.
        """
        return tuple(
            (plugin.name, each) for plugin, events_to_register in self._registered_events for each in events_to_register
        )

    @cached_property
    def permit_interests(self) -> Mapping[str, tuple[ClusterEventWithHint, ...]]:
        """Events that may release a pod waiting on a Permit plugin, by plugin name."""
        names = {plugin.name for plugin in self.permit}
        return {plugin.name: events for plugin, events in self._registered_events if plugin.name in names}

    @cached_property
    def _registered_events(self) -> tuple[tuple[Plugin, tuple[ClusterEventWithHint, ...]], ...]:
        registered = [
            (plugin, call_guarded(plugin.name, "EventsToRegister", _events_of, plugin)) for plugin in self.plugins
        ]
        resources = {NODE, POD, *(each.resource for _, events in registered for each in events)} - {ANY_RESOURCE}
        return tuple(
            (plugin, tuple(each for interest in events for each in _unroll_wildcard(plugin, interest, resources)))
            for plugin, events in registered
        )

    @property
    def watches(self) -> frozenset[ResourceKind]:
        """Kinds that its plugins read in addition to the scheduler's own."""
        return frozenset(kind for plugin in self.plugins for kind in plugin.watches)

    @property
    def succeeded(self) -> frozenset[str]:
        """Label keys of the succeeded pods that its plugins count; "" for those of all pod groups."""
        counting = [plugin for plugin in self.plugins if plugin.counts_succeeded]
        return frozenset(key for plugin in counting for key in plugin.indexes or ("",))

    @cached_property
    def eviction_permits(self) -> tuple[PermitPlugin, ...]:
        """Permit plugins that implement `handle_unschedulable`."""
        return tuple(
            plugin
            for plugin in self.permit
            if type(plugin).handle_unschedulable is not PermitPlugin.handle_unschedulable
        )

    @property
    def indexes(self) -> frozenset[str]:
        """Pod label keys that its plugins look pods up by."""
        return frozenset(key for plugin in self.plugins for key in plugin.indexes)


def compile_profile(name: str, points: Mapping[str, Sequence[tuple[Plugin, int]]]) -> Profile:
    """Return the profile of plugin instances and weights by extension point, named as in configurations (`queueSort`).

    ValueError if there is not exactly one QueueSort plugin, more than one PodGroup plugin, or no Bind plugin.
    """

    def at(point: str, base: type[P]) -> tuple[P, ...]:
        return tuple(plugin for plugin, _ in points.get(point, ()) if isinstance(plugin, base))

    sorts, binders = at("queueSort", QueueSortPlugin), at("bind", BindPlugin)
    if len(sorts) != 1:
        raise ValueError(
            f'only one queue sort plugin required for profile with scheduler name "{name}", but got {len(sorts)}'
        )
    if not binders:
        raise ValueError(f'at least one bind plugin is needed for profile with scheduler name "{name}"')
    pod_groups, quotas = at("podGroup", PodGroupPlugin), at("quota", QuotaPlugin)
    if len(pod_groups) > 1:
        names = " and ".join(plugin.name for plugin in pod_groups)
        raise ValueError(f'only one pod group plugin can be enabled for profile with scheduler name "{name}": {names}')
    if len(quotas) > len(pod_groups):
        text = f'the quota plugin needs a pod group plugin in the profile with scheduler name "{name}"'
        raise ValueError(text if len(quotas) == 1 else f"{text}, and only one quota plugin can be enabled")
    score = tuple(Weighted(p, w) for p, w in points.get("score", ()) if isinstance(p, ScorePlugin))
    placement_score = tuple(
        WeightedPlacementScore(p, w) for p, w in points.get("placementScore", ()) if isinstance(p, PlacementScorePlugin)
    )
    pre_score = at("preScore", PreScorePlugin)
    # A configuration may enable a plugin at Score only; its PreScore runs all the same.
    unprepared = (s.plugin for s in score if isinstance(s.plugin, PreScorePlugin) and s.plugin not in pre_score)
    return Profile(
        name=name,
        queue_sort=sorts[0],
        pod_group=next(iter(pod_groups), None),
        quota=next(iter(quotas), None),
        pre_enqueue=at("preEnqueue", PreEnqueuePlugin),
        pre_filter=at("preFilter", PreFilterPlugin),
        filter=at("filter", FilterPlugin),
        post_filter=at("postFilter", PostFilterPlugin),
        placement_generate=at("placementGenerate", PlacementGeneratePlugin),
        placement_feasible=at("placementFeasible", PlacementFeasiblePlugin),
        placement_score=placement_score,
        pod_group_post_filter=at("podGroupPostFilter", PodGroupPostFilterPlugin),
        pre_score=(*pre_score, *unprepared),
        score=score,
        reserve=at("reserve", ReservePlugin),
        permit=at("permit", PermitPlugin),
        plan=BindingPlan(at("preBind", PreBindPlugin), binders, at("postBind", PostBindPlugin)),
    )


def _events_of(plugin: Plugin) -> tuple[ClusterEventWithHint, ...]:
    events: object = plugin.events_to_register()
    if not isinstance(events, Sequence) or not all(isinstance(interest, ClusterEventWithHint) for interest in events):
        raise InvalidReturnValue(
            plugin.events_to_register, events, "a sequence of ClusterEventWithHint", shown=text_of(events, repr)
        )
    return tuple(events)


def _unroll_wildcard(
    plugin: Plugin, interest: ClusterEventWithHint, resources: Set[str]
) -> Iterator[ClusterEventWithHint]:
    """Yield the registration resource by resource (kube-scheduler's UnrollWildCardResource)."""
    if interest.resource != ANY_RESOURCE:
        yield interest
        return
    for resource in sorted({*resources, *(kind.kind for kind in plugin.watches)}):
        yield msgspec.structs.replace(interest, resource=resource)


def reads_of(plugin: Plugin) -> Reads:
    """Return what the plugin's per-node results depend on; EVERYTHING for a plugin without `reads`."""
    return getattr(plugin, "reads", Reads.EVERYTHING)


def may_read_anything(plugin: Plugin) -> bool:
    """Return True if the plugin's results may depend on more than the pod's signature, nodes and pods on nodes.

    So may those of a plugin with a cache key that does not read pods on other nodes: the key has what else it reads.
    """
    reads, own_key = reads_of(plugin), getattr(type(plugin), "filter_cache_key", FilterPlugin.filter_cache_key)
    is_keyed = own_key is not FilterPlugin.filter_cache_key and reads <= Reads.ALL_NODES
    return reads is Reads.EVERYTHING or is_keyed or getattr(plugin, "reads_identity", False)


def is_cacheable(plugin: Plugin) -> bool:
    """Return True if the plugin's results hold for every pod of the signature while no node object changes."""
    return reads_of(plugin) <= Reads.ALL_NODES and not getattr(plugin, "reads_identity", False) and not is_keyed(plugin)


def is_live(plugin: PreScorePlugin) -> bool:
    """Return True if the plugin's PreScore results hold for every pod of the signature while only pods change."""
    return (
        plugin.pre_score_is_live and reads_of(plugin) <= Reads.DOMAINS and not getattr(plugin, "reads_identity", False)
    )


def is_keyed(plugin: Plugin) -> bool:
    """Return True if the plugin's Filter results hold while its cache key is unchanged."""
    default = FilterPlugin.filter_cache_key
    return getattr(type(plugin), "filter_cache_key", default) is not default


def _has_filter_equivalence(plugin: FilterPlugin) -> bool:
    """Return True if `filter_all` may run on classes of nodes; by default it calls `filter` for each node."""
    if reads_of(plugin) is Reads.EVERYTHING or plugin.reads_identity:
        return False
    return _overrides(plugin, FilterPlugin, "filter_equivalence", "filter_all")


def _has_score_equivalence(plugin: ScorePlugin) -> bool:
    """Return True if `score_all` may run on classes of nodes, and equal raw scores stay equal in NormalizeScore."""
    has_equivalence = _overrides(plugin, ScorePlugin, "score_equivalence", "score_all")
    return has_equivalence and not _overrides(plugin, ScorePlugin, "normalize") and not may_read_anything(plugin)


def _overrides(plugin: Plugin, base: type[Plugin], *methods: str) -> bool:
    return all(getattr(type(plugin), name, None) not in (None, getattr(base, name)) for name in methods)


def _node_affinity(signature: PodSignature) -> object:
    affinity = signature.spec.affinity
    return affinity and affinity.node_affinity
