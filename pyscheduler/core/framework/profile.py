"""A profile ready to run: plugin instances by extension point, in the order in which they are asked."""

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
    Reads,
    ReservePlugin,
    ScorePlugin,
)
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.commands import BindingPlan
from pyscheduler.core.framework.evaluation_counts import EvaluationCounts
from pyscheduler.core.framework.plugin_calls import call_guarded

P = TypeVar("P", bound=Plugin)


class Weighted(msgspec.Struct, frozen=True):
    """A Score plugin with its weight in this profile."""

    plugin: ScorePlugin
    weight: int


class Profile(msgspec.Struct, frozen=True, eq=False, dict=True):
    """What a `schedulerName` stands for."""

    name: str
    queue_sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    post_filter: tuple[PostFilterPlugin, ...] = ()
    pre_score: tuple[PreScorePlugin, ...] = ()
    score: tuple[Weighted, ...] = ()
    reserve: tuple[ReservePlugin, ...] = ()
    permit: tuple[PermitPlugin, ...] = ()
    plan: BindingPlan = msgspec.field(default_factory=lambda: BindingPlan((), (), ()))
    percentage_of_nodes_to_score: int | None = None
    """How big a share kube-scheduler's order looks at, 0 adapting it; None: every node, in our own order."""

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Every plugin of the profile, each once."""
        points: tuple[Sequence[Plugin], ...] = (
            (self.queue_sort,),
            self.pre_enqueue,
            self.pre_filter,
            self.filter,
            self.post_filter,
            self.pre_score,
            tuple(s.plugin for s in self.score),
            self.reserve,
            self.permit,
            self.plan.pre_bind,
            self.plan.bind,
            self.plan.post_bind,
        )
        return tuple({plugin.name: plugin for point in points for plugin in point}.values())

    @cached_property
    def label_readers(self) -> frozenset[str]:
        """The names of the plugins that may say another thing of a pod with other labels or annotations."""
        return frozenset(plugin.name for plugin in self.plugins if plugin.reads_labels)

    @cached_property
    def claim_readers(self) -> frozenset[str]:
        """The names of those that may say another thing of a pod that names other claims."""
        return frozenset(plugin.name for plugin in self.plugins if plugin.reads_claims)

    @cached_property
    def named_node_readers(self) -> frozenset[str]:
        """The names of those that may say another thing of a pod whose node affinity names other nodes."""
        return frozenset(plugin.name for plugin in self.plugins if plugin.reads_match_fields)

    @cached_property
    def evaluations(self) -> EvaluationCounts:
        """How often its plugins have been asked."""
        return EvaluationCounts(self.pre_filter, self.filter, self.pre_score, [each.plugin for each in self.score])

    @property
    def events_to_register(self) -> tuple[tuple[str, ClusterEventWithHint], ...]:
        """Which events may help a pod that a plugin rejected, as (plugin name, interest).

        "Anything" is what happens to nodes, to pods, to what the plugin watches itself and to what any plugin waits
        for; not to what others only read, such as the ReplicaSets whose pods are spread: their status never rests.
        """
        return tuple(
            (plugin.name, each) for plugin, events_to_register in self._interests for each in events_to_register
        )

    @cached_property
    def permit_interests(self) -> Mapping[str, tuple[ClusterEventWithHint, ...]]:
        """Which events may let a pod go that a Permit plugin makes wait, by the plugin's name."""
        names = {plugin.name for plugin in self.permit}
        return {
            plugin.name: events_to_register for plugin, events_to_register in self._interests if plugin.name in names
        }

    @cached_property
    def _interests(self) -> tuple[tuple[Plugin, tuple[ClusterEventWithHint, ...]], ...]:
        given = [(plugin, call_guarded(plugin.name, "Interests", _interests_of, plugin)) for plugin in self.plugins]
        awaited = {NODE, POD, *(each.resource for _, events_to_register in given for each in events_to_register)} - {
            ANY_RESOURCE
        }
        return tuple(
            (plugin, tuple(each for interest in events_to_register for each in _unrolled(plugin, interest, awaited)))
            for plugin, events_to_register in given
        )

    @property
    def watches(self) -> frozenset[ResourceKind]:
        """The kinds that its plugins read beyond the scheduler's own."""
        return frozenset(kind for plugin in self.plugins for kind in plugin.watches)

    @property
    def succeeded(self) -> frozenset[str]:
        """The label keys of the succeeded pods that its plugins count; "" for those of all pod groups."""
        counting = [plugin for plugin in self.plugins if plugin.counts_succeeded]
        return frozenset(key for plugin in counting for key in plugin.indexes or ("",))

    @cached_property
    def eviction_permits(self) -> tuple[PermitPlugin, ...]:
        """The Permit plugins that are to be called for pods without a place."""
        return tuple(
            plugin
            for plugin in self.permit
            if type(plugin).handle_unschedulable is not PermitPlugin.handle_unschedulable
        )

    @property
    def indexes(self) -> frozenset[str]:
        """The pod label keys that its plugins look pods up by."""
        return frozenset(key for plugin in self.plugins for key in plugin.indexes)


def compile_profile(name: str, points: Mapping[str, Sequence[tuple[Plugin, int]]]) -> Profile:
    """The profile of plugin instances and weights by extension point (`queueSort`, `preFilter` … as configs name them).

    ValueError if there is not exactly one QueueSort plugin, or no Bind plugin.
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
    score = tuple(Weighted(p, w) for p, w in points.get("score", ()) if isinstance(p, ScorePlugin))
    pre_score = at("preScore", PreScorePlugin)
    # A configuration may enable a plugin at Score alone; what it prepares there is asked of it all the same.
    unprepared = (s.plugin for s in score if isinstance(s.plugin, PreScorePlugin) and s.plugin not in pre_score)
    return Profile(
        name=name,
        queue_sort=sorts[0],
        pre_enqueue=at("preEnqueue", PreEnqueuePlugin),
        pre_filter=at("preFilter", PreFilterPlugin),
        filter=at("filter", FilterPlugin),
        post_filter=at("postFilter", PostFilterPlugin),
        pre_score=(*pre_score, *unprepared),
        score=score,
        reserve=at("reserve", ReservePlugin),
        permit=at("permit", PermitPlugin),
        plan=BindingPlan(at("preBind", PreBindPlugin), binders, at("postBind", PostBindPlugin)),
    )


def _interests_of(plugin: Plugin) -> tuple[ClusterEventWithHint, ...]:
    given: object = plugin.events_to_register()
    if not isinstance(given, Sequence) or not all(isinstance(interest, ClusterEventWithHint) for interest in given):
        raise InvalidReturnValue(plugin.events_to_register, given, "a sequence of Interests", shown=repr(given))
    return tuple(given)


def _unrolled(plugin: Plugin, interest: ClusterEventWithHint, awaited: Set[str]) -> Iterator[ClusterEventWithHint]:
    """The registration resource by resource (kube-scheduler's UnrollWildCardResource)."""
    if interest.resource != ANY_RESOURCE:
        yield interest
        return
    for resource in sorted({*awaited, *(kind.kind for kind in plugin.watches)}):
        yield msgspec.structs.replace(interest, resource=resource)


def reads_of(plugin: Plugin) -> Reads:
    """What the plugin's per-node answers depend on; everything, for one that gives none and so did not say."""
    return getattr(plugin, "reads", Reads.EVERYTHING)


def is_kept(plugin: Plugin) -> bool:
    """Whether its answers for a pod are those for every pod of the signature, as long as no node object changes."""
    return reads_of(plugin) <= Reads.ALL_NODES and not getattr(plugin, "reads_identity", False)
