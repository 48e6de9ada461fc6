"""Volumes for preemption tests: zonal, counted against a limit, ephemeral, or with an invalid selector."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pyscheduler.testing import Harness
from tests.unit.intree import storage
from tests.unit.intree.storage import KINDS, Manifest, bound, claim, ephemeral, meta, obj, using, volume

_DRIVER = "csi.example.com"
_LIMITS = (1, 2, None, 0)
"""Number of volumes that the driver attaches to the nodes n0, n1 …"""
_INVALID_SELECTOR: dict[str, Any] = {"matchExpressions": [{"key": "a", "operator": "Nonsense"}]}
_PODS = (using("near"), using("first"), using("second"), using("first", "third"), using("odd"), ephemeral("own"))

volumes = st.sampled_from([each.manifest["spec"]["volumes"] for each in _PODS])
"""Values for a pod's spec.volumes."""


def add_storage(harness: Harness, owner: str, others: list[str]) -> None:
    """Add the storage objects. The claim named after `owner` belongs to that pod, those of `others` do not."""
    made: list[Manifest] = [storage.storage_class(), claim("odd", selector=_INVALID_SELECTOR)]
    made += [volume("near", nodeAffinity=storage.within("a")), bound("near", "near")]
    for name in ("first", "second", "third"):
        made += [volume(name, csi={"driver": _DRIVER, "volumeHandle": name}), bound(name, name)]
    owned = {"ownerReferences": [{"uid": f"default-{owner}", "controller": True}]}
    made += [meta(bound("third", f"{name}-own"), **owned) for name in (owner, *others)]
    for i, most in enumerate(_LIMITS):
        room = {} if most is None else {"allocatable": {"count": most}}
        made.append(obj("CSINode", f"n{i}", spec={"drivers": [{"name": _DRIVER, **room}]}))
    for each in made:
        harness.add_object(KINDS[each["kind"]], each)
