"""The equivalence caches of one profile, limited in number and memory.

Signature groups share a cache if every plugin signs them alike (`Plugin.sign_group`) and their priority is equal, on
which the pods depend that are nominated before them. So thousands of templates that differ in what no plugin reads, in
images that no node has for example, need no more caches than one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from pyscheduler.api.plugin import UNSIGNABLE, Plugin, Reads
from pyscheduler.api.pod import Pod, PodSignatureGroup
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Profile, reads_of
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.state.cluster import ClusterState

MAX_CACHE_BYTES = 256 * 1024 * 1024
"""Limit on the memory of one profile's equivalence caches; beyond it the least recently used are dropped."""
MAX_CACHES = 2048
"""Maximum number of equivalence caches per profile, however small they are."""
MIN_CACHES = 256
"""Number of equivalence caches kept regardless of `MAX_CACHE_BYTES`: 250 MB at 100,000 nodes."""
_OBJECTS = 20 * 1024
"""Estimated memory of a cache in addition to its columns."""
MAX_NUMBERS = 1 << 15
"""Number of distinct signed values at which all are forgotten."""
_STABLE = (Reads.OWN_NODE, Reads.ALL_NODES)


class EquivalenceCaches:
    """Equivalence caches by what the plugins read of a signature group, the most recently used one last."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._state = state
        self._caches: OrderedDict[int, EquivalenceCache] = OrderedDict()
        """By the number of the priority and the signed values."""
        self._rows: WeakValueDictionary[Hashable, RowResults] = WeakValueDictionary()
        """Results by row by priority and the signed values that they depend on."""
        by_row = {plugin.name for plugin in (*profile.row_filters, *(each.plugin for each in profile.row_scores))}
        self._row_signers = [i for i, plugin in enumerate(profile.signers) if plugin.name in by_row]
        self._numbers: dict[Hashable, int] = {}
        self._signed: list[Sequence[Hashable]] = []
        """Signed values of each number, one for each of the profile's signers."""
        self._unsignable: set[int] = set()
        """Numbers of signed values that include UNSIGNABLE."""
        self._stable_signers = [i for i, plugin in enumerate(profile.signers) if reads_of(plugin) in _STABLE]
        self._similar: dict[Hashable, int] = {}
        """Number of the last new cache by what the plugins signed that do not read pods on nodes."""
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
        number = group.number
        if number in self._unsignable:
            return None
        cache = self._caches.get(number)
        if cache is not None:
            self._caches.move_to_end(number)
            return cache
        cache = self._caches[number] = self._new_cache(template, number)
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
        cache = None if group is None else self._caches.pop(group.number, None)
        if cache is not None:
            cache.rows.reset()

    def _new_cache(self, template: PodSignatureGroup, number: int) -> EquivalenceCache:
        """Return a cache with the results that hold for the template too of a cache for a similar one."""
        signed = self._signed[number]
        key = (template.spec.priority or 0, *(signed[i] for i in self._row_signers))
        rows = self._rows.get(key)
        similar = self._similar.get(similarity := tuple([signed[i] for i in self._stable_signers]), -1)
        self._similar[similarity] = number
        if similar not in self._caches:
            similar = next(reversed(self._caches), -1)
        base = self._caches.get(similar)
        if base is None:
            rows = rows or RowResults(self._profile, self._state)
            cache = EquivalenceCache(self._profile, self._state, rows)
        else:
            pairs = zip(self._profile.signers, signed, self._signed[similar], strict=True)
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
        """Return the group of a template with its current number; `before` is the one with an outdated number."""
        if len(self._numbers) >= MAX_NUMBERS:
            # Most belong to templates that are gone.
            self._numbers.clear()
            self._signed.clear()
            self._unsignable.clear()
            self._groups.clear()
            self._caches.clear()
            self._similar.clear()
            before = None
        if before is None:
            signed = tuple([_sign(plugin, template) for plugin in self._profile.signers])
        else:
            values = list(self._signed[before.number])
            for i in self._versioned:
                values[i] = _sign(self._profile.signers[i], template)
            signed = tuple(values)
        number = self._numbers.setdefault((template.spec.priority or 0, signed), len(self._numbers))
        if number == len(self._signed):
            self._signed.append(signed)
            if UNSIGNABLE in signed:
                self._unsignable.add(number)
        group = self._groups[template] = _Group(number, self._versions)
        return group


class _Group(NamedTuple):
    """Number of the signed values of a signature group, and the versions with which they were signed."""

    number: int
    versions: tuple[int, ...]


def _signing_version(plugin: Plugin) -> int:
    try:
        return plugin.signing_version
    except BaseException as error:
        raise_plugin_failed(plugin.name, "SignPod", error)


def _sign(plugin: Plugin, template: PodSignatureGroup) -> Hashable:
    """Return what the plugin reads of the group. PluginFailed if it raises or the value is not hashable."""
    try:
        signed = plugin.sign_group(template)
        hash(signed)
        return signed
    except BaseException as error:
        raise_plugin_failed(plugin.name, "SignPod", error)
