"""The volumes that are found for a claim are those that a look at each volume finds, whatever changed before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.framework import object_store
from pyscheduler.core.framework.object_store import ObjectStore
from pyscheduler.intree._object_index import ObjectIndex
from pyscheduler.intree.volumes.assume_cache import VolumeAssumeCache
from pyscheduler.intree.volumes.claim import ClaimRequests, DelayedClaim
from pyscheduler.intree.volumes.match import PersistentVolume
from pyscheduler.intree.volumes.objects import read_claim
from tests.properties.profiles import assert_caught, quick
from tests.unit.intree.storage import Cluster, Manifest, claim, meta, spec, volume

NAMES = ("pv-0", "pv-1", "pv-2")
CLASSES = ("late", "fast")
CLAIMS = ("data", "logs")
Step = tuple[str, str, str, str]
"""Kind of step, volume, storage class of the volume, claim of its claimRef ("" for none)."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("show", "show", "hide", "assume", "restore", "look")),
        st.sampled_from(NAMES),
        st.sampled_from(CLASSES),
        st.sampled_from((*CLAIMS, "")),
    ),
    max_size=25,
)


class VolumeWorld:
    """Volumes in the informer's cache, with assumed versions of some of them."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cache = VolumeAssumeCache(self.cluster.handle)
        self.shown: dict[str, Manifest] = {}
        self.assumed: dict[str, Manifest] = {}
        self.version = 0

    def do(self, what: str, name: str, storage_class: str, to: str) -> None:
        getattr(self, f"_{what}")(name, storage_class, to)

    def _show(self, name: str, storage_class: str, to: str) -> None:
        self.version += 1
        shown = _volume(name, storage_class, to)
        self.shown[name] = meta(shown, resourceVersion=str(self.version))
        self.assumed.pop(name, None)
        self.cluster.show(self.shown[name])

    def _hide(self, name: str, _class: str, _to: str) -> None:
        if name in self.shown:
            self.cluster.hide(self.shown.pop(name))
            self.assumed.pop(name, None)

    def _assume(self, name: str, _class: str, to: str) -> None:
        if name in self.shown and to:
            self.assumed[name] = spec(self.shown[name], claimRef={"namespace": "default", "name": to})
            self.cache.assume(self.assumed[name])

    def _restore(self, name: str, _class: str, _to: str) -> None:
        if name in self.assumed:
            self.cache.restore(self.assumed.pop(name))

    def _look(self, *_: str) -> None:
        current = {**self.shown, **self.assumed}
        for name in NAMES:
            named = self.cache.volume(name)
            assert (named and named.source) == current.get(name)
        for name in CLAIMS:
            for storage_class in CLASSES:
                wanted = _delayed(name, storage_class)
                expected = sorted(pv["metadata"]["name"] for pv in current.values() if _may_be_bound(pv, wanted))
                found = [*self.cache.claimed_by(wanted), *self.cache.unclaimed(storage_class)]
                assert sorted(volume.name for volume in found) == expected


def _volume(name: str, storage_class: str, to: str) -> Manifest:
    built = volume(name, storage_class=storage_class)
    return spec(built, claimRef={"namespace": "default", "name": to}) if to else built


def _delayed(name: str, storage_class: str) -> DelayedClaim:
    return ClaimRequests().delayed_claim(read_claim(claim(name, storage_class=storage_class)))


def _may_be_bound(of: Manifest, wanted: DelayedClaim) -> bool:
    given = of["spec"]
    return bool(given["storageClassName"] == wanted.request.storage_class) and (
        given.get("claimRef", {}).get("name", wanted.name) == wanted.name
    )


def _volumes_are_found(steps: list[Step]) -> None:
    world = VolumeWorld()
    for step in steps:
        world.do(*step)
    world.do("look", "", "", "")


def test_volumes_of_a_claim_are_those_that_a_look_at_each_volume_finds() -> None:
    quick(200)(given(STEPS)(_volumes_are_found))()


def test_index_is_rebuilt_if_changes_are_no_longer_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "KEEP", 1)
    quick(100)(given(STEPS)(_volumes_are_found))()


Plant = Callable[[pytest.MonkeyPatch], None]


def _keep_old_index_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ObjectIndex, "_remove", lambda *_: None)


def _ignore_assumed_volumes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ObjectIndex, "update", _only_from_refresh(ObjectIndex.update))


def _only_from_refresh(update: Any) -> Any:
    def updated(self: ObjectIndex[PersistentVolume], key: tuple[str, str]) -> None:
        if self._version != self.version:
            update(self, key)

    return updated


def _list_too_few_changes(patch: pytest.MonkeyPatch) -> None:
    changed_since = ObjectStore.changed_since
    patch.setattr(ObjectStore, "changed_since", lambda *args: tuple(changed_since(*args) or ())[:1])


@pytest.mark.parametrize("plant", [_keep_old_index_value, _ignore_assumed_volumes, _list_too_few_changes])
def test_property_catches_a_wrong_index(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(_volumes_are_found, STEPS, AssertionError)
