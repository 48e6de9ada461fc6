"""Plugin results of one profile for the pods of one signature group, kept between attempts.

PreFilter and PreScore results belong to the group. Results by row are shared with all groups that the plugins evaluated
by row sign alike (`RowResults`); results by class of equivalent nodes are the cache's own (`ClassResults`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import Mask, NodeTable
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.plugin import UNSIGNABLE, FilterPlugin, Plugin
from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.reads import Reads
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Profile, reads_of
from pyscheduler.core.result_cache.class_results import ClassResults
from pyscheduler.core.result_cache.invalidation import NodeReaders
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache, run_pre_score
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.result_cache.row_scores import TopScores
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows, Totals

MAX_CACHE_BYTES = 256 * 1024 * 1024
"""Limit on the memory of one profile's equivalence caches; beyond it the least recently used are dropped."""
MAX_CACHES = 3072
"""Maximum number of equivalence caches per profile, however small they are."""
MIN_CACHES = 256
"""Number of equivalence caches kept regardless of `MAX_CACHE_BYTES`: 160 MB at 100,000 nodes."""
_OBJECTS = 20 * 1024
"""Estimated memory of a cache in addition to its columns."""
MAX_SIGNED = 1 << 15
"""Number of distinct signed values at which all are forgotten."""
_STABLE = (Reads.OWN_NODE, Reads.ALL_NODES)


class NominatedPodsResults:
    """Filter results of nodes with their nominated pods added."""

    __slots__ = ("by_node", "rejected", "usage_mark", "version")

    def __init__(self) -> None:
        self.by_node: dict[str, tuple[Hashable, Status | None]] = {}
        """Status by node name, with the versions it depends on."""
        self.rejected: dict[int, Status] = {}
        """Rejections by row of the nodes that fit without the nominated pods."""
        self.version: Hashable = None
        """Version of the nominated pods in `rejected`."""
        self.usage_mark = -1
        """Position in the usage log as of `rejected`."""


class EquivalenceCache:
    """Cached results of one profile for the signatures of one group. After any exception drop it and reset `rows`."""

    def __init__(
        self,
        profile: Profile,
        state: ClusterState,
        rows: RowResults,
        classes: ClassResults,
        pre_filter: PluginResultCache,
        pre_score: PluginResultCache,
    ) -> None:
        """Create a cache without results but these; it may share `rows` with others."""
        self._profile = profile
        self._signature: PodSignature | None = None
        self._state = state
        self._pre_filter, self._pre_score = pre_filter, pre_score
        self.rows = rows
        self._classes = classes
        self._skipped_filters, self._skipped_scores = frozenset[str](), frozenset[str]()
        """Plugins that PreFilter and PreScore skipped."""
        self._excluded: Mask | None = None
        """Rows that pass all filters but are not feasible, because nominated pods need the space."""
        self._are_rejected_excluded = False
        """True if `rows` excludes the rows of rejected classes too."""
        self.with_nominated_pods = NominatedPodsResults()
        self._are_all_filtered = False
        """True if the current attempt has filtered all nodes."""
        self._nodes_version = state.nodes_version
        self._node_readers = NodeReaders(profile.signers)
        self._objects_version = state.objects_version
        self._templates_version = state.placed.templates_version
        self._views_version = state.placed.views_version
        """Version of the views of placed pods that cached PreScore results have, as of the attempt that stored them."""
        self._pre_scored_rows: ref[Rows] | None = None
        """The feasible rows then; None for all."""

    def copy_without(self, plugins: frozenset[str], rows: RowResults) -> EquivalenceCache:
        """Return a cache for a group that all plugins but these sign alike, with the results that hold for it too."""
        pre_filter, pre_score = self._pre_filter.copy_without(plugins), self._pre_score.copy_without(plugins)
        classes = self._classes.copy_without(plugins)
        twin = EquivalenceCache(self._profile, self._state, rows, classes, pre_filter, pre_score)
        twin._signature = self._signature
        twin._nodes_version, twin._objects_version = self._nodes_version, self._objects_version
        twin._templates_version = self._templates_version
        return twin

    @property
    def bytes(self) -> int:
        """Memory of the results in bytes, without those by row."""
        return self._classes.bytes

    @property
    def holds_for_signature(self) -> bool:
        """True if an attempt of another pod of the signature would have the current attempt's PreFilter and Filter
        results while nothing changes.
        """
        return self._are_all_filtered and not self._includes(self._profile.unlimited_plugins, group=False)

    def depends_on(self, plugins: frozenset[str]) -> bool:
        """Return True if the signature's PreFilter or Filter results may include any of these plugins'."""
        return self._includes(plugins, group=True)

    def _includes(self, plugins: frozenset[str], group: bool) -> bool:
        pre_filters = plugins & self._profile.pre_filter_names
        if not pre_filters <= self._pre_filter.skips(group):
            return True
        return not plugins.isdisjoint(self._profile.filter_places.keys() - self._skipped_filters)

    # -- PreFilter -----------------------------------------------------------------------------------------------------

    def begin(self, signature: PodSignature) -> PluginResultCache:
        """Return the PreFilter results that are still valid."""
        self._are_all_filtered = False
        if self._signature is not signature:
            self._switch_signature(signature)
        if self._nodes_version != self._state.nodes_version:
            changed = self._state.changed_node_fields(self._nodes_version)
            readers = self._node_readers.of(signature.template, changed)
            self._nodes_version = self._state.nodes_version
            self._pre_filter.drop(readers & self._profile.pre_node_readers)
            self._pre_score.drop(readers & (self._profile.pre_node_readers | self._pre_score.live))
            self.with_nominated_pods = NominatedPodsResults()
        state = self._state
        if self._objects_version != state.objects_version or self._templates_version != state.placed.templates_version:
            readers_of_objects = self._readers_of_changes()
            self._pre_filter.invalidate_readers(readers_of_objects)
            self._pre_score.invalidate_readers(readers_of_objects)
        return self._pre_filter

    def _readers_of_changes(self) -> set[str]:
        """Return the names of the plugins that read objects or counts of templates which have changed."""
        state, readers = self._state, set[str]()
        if self._templates_version != state.placed.templates_version:
            readers.update(self._profile.placed_group_readers)
        if self._objects_version != state.objects_version:
            for kind, version in state.object_versions.items():
                if version > self._objects_version:
                    readers.update(self._profile.watchers.get(kind, ()))
        self._objects_version, self._templates_version = state.objects_version, state.placed.templates_version
        return readers

    def _switch_signature(self, signature: PodSignature) -> None:
        last, self._signature = self._signature, signature
        if last is None:
            return  # no results yet
        readers = self._profile.readers_of_difference(last, signature)
        if readers:
            self._pre_filter.invalidate(readers)
            self._pre_score.invalidate(readers)
        self.with_nominated_pods = NominatedPodsResults()

    # -- Filter --------------------------------------------------------------------------------------------------------

    def refresh_filters(self, cycle: Cycle, pod: Pod, skipped: frozenset[str]) -> None:
        """Update the results of all nodes; call it before `exclude_rows`. PluginFailed if a plugin raises."""
        if skipped is not self._skipped_filters:
            if skipped != self._skipped_filters:
                self.with_nominated_pods = NominatedPodsResults()
                self._classes.skip_filters(skipped)
            self._skipped_filters = skipped
        classes, skipped_by_row = self._classes, skipped
        if classes.active_filters:
            classes.select_filters(cycle)
            skipped_by_row |= classes.replaced_row_filters
        self.rows.refresh_filters(cycle, pod, skipped_by_row)
        if classes.filters:
            classes.filter(cycle, pod)
        self._are_all_filtered = True

    def exclude_rows(self, rows: Collection[int]) -> int:
        """Let rows count as infeasible although they pass all filters. Return the number of feasible rows."""
        by_row, classes = self.rows, self._classes
        if not rows and classes.codes is None and by_row.excluded is None:
            return by_row.feasible_count
        self._excluded = None
        if rows:
            self._excluded = np.zeros(len(self._state), np.bool_)
            self._excluded[[*rows]] = True
        self._are_rejected_excluded = classes.codes is not None and by_row.scores.depend_on_feasibility
        self._exclude()
        return by_row.feasible_count if self._are_rejected_excluded else classes.count_feasible(by_row)

    def _exclude(self) -> None:
        """Exclude rows from the results by row; those of rejected classes if scores are normalised without them."""
        excluded = self._excluded
        fitting = self._classes.fitting() if self._are_rejected_excluded else None
        if fitting is not None:
            excluded = ~fitting if excluded is None else excluded | ~fitting
        self.rows.exclude(excluded)

    @property
    def feasible(self) -> Mask:
        """Mask of the feasible rows."""
        feasible, fitting = self.rows.feasible, self._classes.fitting()
        return feasible if fitting is None else feasible & fitting

    @property
    def class_filters(self) -> Sequence[FilterPlugin]:
        """The Filter plugins that are evaluated by class in the current attempt."""
        return self._classes.filters

    @property
    def is_stable(self) -> bool:
        """True if Filter results change only in rows where something happened."""
        return self.rows.filters.is_stable and not self._classes.filters

    def fits(self, row: int) -> bool:
        """Return True if all filters pass, also where the row is excluded."""
        return self.rows.filters.fits(row) and self._classes.fits(row)

    def status(self, row: int) -> Status | None:
        """Return the Filter status of a row, of the first plugin that rejects it; None if the pod fits."""
        by_row, by_class = self.rows.filters.status(row), self._classes.status(row)
        if by_row is None or by_class is None:
            return by_row or by_class
        places = self._profile.filter_places
        return by_row if places[by_row.plugin] < places[by_class.plugin] else by_class

    def statuses(self) -> tuple[list[Status], NDArray[np.integer]]:
        """Return all Filter statuses and for each row the index of its status; the first is that of feasible rows."""
        statuses, rows = self.rows.filters.statuses, self.rows.filters.codes
        by_class = self._classes.statuses()
        if by_class is None:
            return statuses, rows
        more, of_class = by_class
        places = self._profile.filter_places
        # A place before or after all others stands for no plugin.
        row_places = np.array([places.get(each.plugin, len(places)) for each in statuses]).take(rows)
        class_places = np.array([*(places[each.plugin] for each in more), len(places) + 1]).take(of_class)
        return [*statuses, *more], np.where(row_places < class_places, rows, of_class + len(statuses))

    def tally(self) -> Counter[Status]:
        """Return the number of nodes per Filter status."""
        if self._classes.codes is None:
            return self.rows.filters.tally()
        tally = Counter[Status]()
        statuses, indexes = self.statuses()
        for status, count in zip(statuses, np.bincount(indexes, minlength=len(statuses)).tolist(), strict=True):
            if count and status.code is not Code.SUCCESS:
                tally[status] += count
        return tally

    # -- PreScore and Score --------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod) -> None:
        """Run PreScore; call it before `refresh_scores`. PluginFailed if a plugin raises."""
        results = self._pre_score
        if results.live and not self._has_same_views():
            results.drop_live()
        skipped = results.replay(cycle) if results.outcome is not None else self._run_pre_score(cycle, pod)
        if skipped is not self._skipped_scores:
            if skipped != self._skipped_scores:
                self._classes.skip_scores(skipped)
            self._skipped_scores = skipped

    def _has_same_views(self) -> bool:
        """Return True if the feasible rows and the views of placed pods are those of the cached PreScore results."""
        rows, before = self._classes.feasible_rows(self.rows), self._pre_scored_rows
        same_rows = before is None if isinstance(rows, slice) else before is not None and before() is rows
        return same_rows and self._views_version == self._state.placed.views_version

    def _run_pre_score(self, cycle: Cycle, pod: Pod) -> frozenset[str]:
        profile, rows = self._profile, self._classes.feasible_rows(self.rows)
        self._pre_scored_rows = None if isinstance(rows, slice) else ref(rows)
        self._views_version = self._state.placed.views_version  # not after: a plugin may displace views of its own
        return run_pre_score(
            profile.pre_score, cycle, pod, self.feasible_table, self._pre_score, profile.evaluations.pre_score
        )

    def feasible_table(self) -> NodeTable:
        """Return the feasible nodes."""
        rows = self._classes.feasible_rows(self.rows)
        return self._state.table(None if isinstance(rows, slice) else rows)

    def refresh_scores(self, cycle: Cycle, pod: Pod) -> TopScores | ClassResults:
        """Update the totals of all feasible nodes; return those with the best one. PluginFailed if a plugin raises."""
        rows, classes = self.rows, self._classes
        rows.refresh_scores(cycle, pod, self._skipped_scores)
        if classes.rejects_rows and not self._are_rejected_excluded and rows.scores.depend_on_feasibility:
            self._are_rejected_excluded = True
            self._exclude()
            rows.refresh_scores(cycle, pod, self._skipped_scores)
        if not classes.rejects_rows and not classes.scores:
            return rows.scores.top_scores
        classes.score(cycle, pod, rows)
        return classes

    @property
    def totals(self) -> Totals:
        """Sum of all weighted scores by row, negative where the row is not feasible."""
        classes = self._classes
        return classes.totals if classes.rejects_rows or classes.scores else self.rows.scores.total


class EquivalenceCaches:
    """Equivalence caches of one profile, limited in number and memory, the most recently used one last.

    Signature groups share a cache if every plugin signs them alike (`Plugin.sign_group`) and their priority is equal,
    on which the pods depend that are nominated before them. So thousands of templates that differ in what no plugin
    reads, in images that no node has for example, need no more caches than one.
    """

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._state = state
        self._caches: OrderedDict[_Signed, EquivalenceCache] = OrderedDict()
        self._rows: WeakValueDictionary[Hashable, RowResults] = WeakValueDictionary()
        """Results by row by priority and the signed values that they depend on."""
        self._row_signers = [i for i, plugin in enumerate(profile.signers) if plugin.name in profile.row_plugins]
        self._signed: dict[Hashable, _Signed] = {}
        """One object for all groups with equal priority and signed values."""
        self._stable_signers = [i for i, plugin in enumerate(profile.signers) if reads_of(plugin) in _STABLE]
        self._similar: dict[Hashable, _Signed] = {}
        """That of the last new cache by what the plugins signed that do not read pods on nodes."""
        self._groups: WeakKeyDictionary[PodSignatureGroup, _Group] = WeakKeyDictionary()
        self._versioned = [
            i for i, plugin in enumerate(profile.signers) if type(plugin).signing_version is not Plugin.signing_version
        ]
        """Places among the signers of those with versions."""
        self._versions: tuple[int, ...] = ()
        """Current versions of these."""
        self._nodes_version = self._objects_version = -1

    def __len__(self) -> int:
        return len(self._caches)

    def __iter__(self) -> Iterator[EquivalenceCache]:
        return iter(self._caches.values())

    def get(self, pod: Pod) -> EquivalenceCache | None:
        """Return the cache for the pod and mark it as most recently used; None if a plugin cannot sign its group."""
        state = self._state
        if self._nodes_version != state.nodes_version or self._objects_version != state.objects_version:
            self._update_versions()
        template = pod.signature.template
        group = self._groups.get(template)
        if group is None or group.versions is not self._versions:
            group = self._signed_group(template, group)
        signed = group.signed
        cache = self._caches.get(signed)
        if cache is not None:
            self._caches.move_to_end(signed)
            return cache
        if UNSIGNABLE in signed.values:
            return None
        cache = self._caches[signed] = self._new_cache(signed)
        # All caches grow to about the same size; the oldest one has reached it.
        oldest = next(iter(self._caches.values()))
        shared = oldest.rows.bytes * len(self._rows) // len(self._caches)
        size = oldest.bytes + shared + _OBJECTS
        while len(self._caches) > min(MAX_CACHES, max(MIN_CACHES, MAX_CACHE_BYTES // size)):
            self._caches.popitem(last=False)
        return cache

    def drop(self, pod: Pod) -> None:
        """Drop the pod's cache, and the results that it shares with others."""
        group = self._groups.get(pod.signature.template)
        cache = None if group is None else self._caches.pop(group.signed, None)
        if cache is not None:
            cache.rows.reset()

    def _new_cache(self, signed: _Signed) -> EquivalenceCache:
        """Return a cache with the results that hold for these groups too of a cache for similar ones."""
        values = signed.values
        key = (signed.priority, *[values[i] for i in self._row_signers])
        rows = self._rows.get(key)
        similarity = tuple([values[i] for i in self._stable_signers])
        similar, self._similar[similarity] = self._similar.get(similarity), signed
        if similar not in self._caches:
            similar = next(reversed(self._caches), None)
        if similar is None:
            profile, state = self._profile, self._state
            rows, classes = rows or RowResults.of(profile, state), ClassResults(profile, state)
            cache = EquivalenceCache(profile, state, rows, classes, PluginResultCache(), PluginResultCache())
        else:
            base, pairs = self._caches[similar], zip(self._profile.signers, values, similar.values, strict=True)
            differing = frozenset([plugin.name for plugin, value, other in pairs if value != other])
            rows = rows or base.rows.copy_without(differing)
            cache = base.copy_without(differing, rows)
        self._rows[key] = rows
        return cache

    def _update_versions(self) -> None:
        """Let groups be signed again by the plugins that may sign them differently since nodes changed."""
        signers = self._profile.signers
        versions = tuple([_signing_version(signers[i]) for i in self._versioned])
        if versions != self._versions:
            self._versions = versions
        self._objects_version = self._state.objects_version
        self._nodes_version = self._state.nodes_version  # not before: after an exception the versions are read again

    def _signed_group(self, template: PodSignatureGroup, before: _Group | None) -> _Group:
        """Return what a template is signed as now; `before` is outdated."""
        if before is None:
            values = _sign(template, self._profile.signers)
        else:
            values = list(before.signed.values)
            signers = [self._profile.signers[i] for i in self._versioned]
            for i, value in zip(self._versioned, _sign(template, signers), strict=True):
                values[i] = value
        if len(self._signed) >= MAX_SIGNED:
            # Most belong to templates that are gone.
            for table in (self._signed, self._groups, self._caches, self._similar):
                table.clear()
        signed = _Signed(template.spec.priority or 0, tuple(values))
        signed = self._signed.setdefault((signed.priority, signed.values), signed)
        group = self._groups[template] = _Group(signed, self._versions)
        return group


class _Signed(msgspec.Struct, frozen=True, eq=False):
    """Priority and signed values of signature groups; compared by identity, since hashing the values takes long."""

    priority: int
    values: tuple[Hashable, ...]


class _Group(NamedTuple):
    """What a signature group is signed as, and the versions with which it was signed."""

    signed: _Signed
    versions: tuple[int, ...]


def _signing_version(plugin: Plugin) -> int:
    try:
        return plugin.signing_version
    except BaseException as error:
        raise_plugin_failed(plugin.name, "SignPod", error)


def _sign(template: PodSignatureGroup, plugins: Sequence[Plugin]) -> list[Hashable]:
    """Return what each plugin reads of the group. PluginFailed if one raises or a value is not hashable."""
    values: list[Hashable] = []
    try:
        for plugin in plugins:
            value = plugin.sign_group(template)
            hash(value)
            values.append(value)
    except BaseException as error:
        raise_plugin_failed(plugins[len(values)].name, "SignPod", error)
    return values
