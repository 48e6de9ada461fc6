"""The equivalence caches of one profile, limited in number and memory.

Signature groups share a cache if every plugin signs them alike (`Plugin.sign_group`) and their priority is equal, on
which the pods depend that are nominated before them. So thousands of templates that differ in what no plugin reads, in
images that no node has for example, need no more caches than one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from weakref import WeakKeyDictionary

from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod, PodSignatureGroup
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache, SharedResults
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


class EquivalenceCaches:
    """Equivalence caches by what the plugins read of a signature group, the most recently used one last."""

    def __init__(self, profile: Profile, state: ClusterState) -> None:
        self._profile = profile
        self._state = state
        self._caches: OrderedDict[int, EquivalenceCache] = OrderedDict()
        """By the number of the priority and the signed values."""
        self._numbers: dict[Hashable, int] = {}
        self._signed: list[Sequence[Hashable]] = []
        """Signed values of each number, one for each of the profile's signers."""
        self._shared_pre_filter, self._shared_pre_score = SharedResults(state), SharedResults(state)
        self._number_by_group: WeakKeyDictionary[PodSignatureGroup, int] = WeakKeyDictionary()
        self._versioned = [
            plugin for plugin in profile.signers if type(plugin).signing_version is not Plugin.signing_version
        ]
        self._signing_versions: list[int] = []
        self._nodes_version = -1

    def __len__(self) -> int:
        return len(self._caches)

    def __iter__(self) -> Iterator[EquivalenceCache]:
        return iter(self._caches.values())

    def get(self, pod: Pod) -> EquivalenceCache:
        """Return the cache for the pod and mark it as most recently used."""
        if self._nodes_version != self._state.nodes_version:
            self._forget_outdated_numbers()
        template = pod.signature.template
        number = self._number_by_group.get(template)
        if number is None:
            number = self._number_of(template)
        cache = self._caches.get(number)
        if cache is not None:
            self._caches.move_to_end(number)
            return cache
        cache = self._caches[number] = self._new_cache(self._signed[number])
        # All caches grow to about the same size; the oldest one has reached it.
        oldest = next(iter(self._caches.values()))
        while len(self._caches) > min(MAX_CACHES, max(MIN_CACHES, MAX_CACHE_BYTES // (oldest.bytes + _OBJECTS))):
            self._caches.popitem(last=False)
        return cache

    def drop(self, pod: Pod) -> None:
        """Drop the pod's cache."""
        number = self._number_by_group.get(pod.signature.template)
        if number is not None:
            self._caches.pop(number, None)

    def _new_cache(self, signed: Sequence[Hashable]) -> EquivalenceCache:
        by_plugin = dict(zip((plugin.name for plugin in self._profile.signers), signed, strict=True))
        pre_filter = PluginResultCache(self._shared_pre_filter, self._profile.pre_filter, by_plugin)
        pre_score = PluginResultCache(self._shared_pre_score, self._profile.pre_score, by_plugin)
        return EquivalenceCache(self._profile, self._state, pre_filter, pre_score)

    def _forget_outdated_numbers(self) -> None:
        """Forget the numbers of all groups if plugins may sign them differently since nodes changed."""
        self._nodes_version = self._state.nodes_version
        versions = [plugin.signing_version for plugin in self._versioned]
        if versions != self._signing_versions:
            self._signing_versions = versions
            self._number_by_group.clear()

    def _number_of(self, group: PodSignatureGroup) -> int:
        if len(self._numbers) >= MAX_NUMBERS:
            # Most belong to templates that are gone.
            self._numbers.clear()
            self._signed.clear()
            self._number_by_group.clear()
            self._caches.clear()
        signed = self._sign(group)
        number = self._numbers.setdefault((group.spec.priority or 0, signed), len(self._numbers))
        if number == len(self._signed):
            self._signed.append(signed)
        self._number_by_group[group] = number
        return number

    def _sign(self, group: PodSignatureGroup) -> tuple[Hashable, ...]:
        """Return what each plugin reads of the group. PluginFailed if one raises."""
        signed: list[Hashable] = []
        for plugin in self._profile.signers:
            try:
                signed.append(plugin.sign_group(group))
                hash(signed[-1])  # an unhashable value raises here
            except BaseException as error:
                raise_plugin_failed(plugin.name, "SignPod", error)
        return tuple(signed)
