"""Volumes for preemption's worlds: in a zone, taking a place on a node, of a pod's own, or making no sense."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pyscheduler.testing import Harness
from tests.unit.intree import storage
from tests.unit.intree.storage import KINDS, Manifest, bound, claim, ephemeral, meta, obj, using, volume

_DRIVER = "csi.example.com"
_LIMITS = (1, 2, None, 0)
"""How many volumes the driver attaches to the nodes n0, n1 …"""
_NONSENSE: dict[str, Any] = {"matchExpressions": [{"key": "a", "operator": "Nonsense"}]}
_PODS = (using("near"), using("first"), using("second"), using("first", "third"), using("odd"), ephemeral("own"))

volumes = st.sampled_from([one.manifest["spec"]["volumes"] for one in _PODS])
"""What a pod of those worlds may have for its spec.volumes."""


def add_storage(harness: Harness, owner: str, others: list[str]) -> None:
    """The objects of that world: `owner`, a pod's name, owns the claim that is called after it; the others do not."""
    made: list[Manifest] = [storage.storage_class(), claim("odd", selector=_NONSENSE)]
    made += [volume("near", nodeAffinity=storage.within("a")), bound("near", "near")]
    for name in ("first", "second", "third"):
        made += [volume(name, csi={"driver": _DRIVER, "volumeHandle": name}), bound(name, name)]
    owned = {"ownerReferences": [{"uid": f"default-{owner}", "controller": True}]}
    made += [meta(bound("third", f"{name}-own"), **owned) for name in (owner, *others)]
    for i, most in enumerate(_LIMITS):
        room = {} if most is None else {"allocatable": {"count": most}}
        made.append(obj("CSINode", f"n{i}", spec={"drivers": [{"name": _DRIVER, **room}]}))
    for one in made:
        harness.add_object(KINDS[one["kind"]], one)
