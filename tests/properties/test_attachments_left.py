"""NodeVolumeLimits: results hold while the cache key and the node are the same, whatever objects and pods change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import SKIP, Cycle, NodeInfo, Pod, Rejection, StatusError
from pyscheduler.intree import NodeVolumeLimits
from pyscheduler.intree.volumes import objects
from pyscheduler.intree.volumes.attached import AttachedVolumes
from pyscheduler.intree.volumes.attachments_left import AttachableVolumeCount, AttachmentsLeft
from pyscheduler.testing import node
from tests.properties.profiles import assert_caught, quick
from tests.unit.intree.storage import Cluster, Manifest, bound, claim, meta, obj, storage_class, using, volume

NODES = ("a", "b", "c")
CLAIMS = ("c0", "c1", "c2", "c3", "p1-v")
DISKS = ("d0", "d1", "d2")
LIMITS = (0, 1, 2, 3, 10**30)
DRIVERS = ("maker", "ebs.csi.aws.com")
Outcome = str | None
Step = tuple[str, int, int, int]


def _disk(name: str, version: int) -> Manifest:
    if version == 3:
        return volume(name, awsElasticBlockStore={"volumeID": "d1"})
    return volume(name, csi={"driver": DRIVERS[version % 2], "volumeHandle": ("d1", name)[version // 2]})


def _claim(name: str, version: int) -> Manifest:
    made = claim(name) if version > 2 else bound(DISKS[version], name)
    return meta(made, ownerReferences=[{"uid": "p1", "controller": True}]) if name == "p1-v" else made


def _csi_node(name: str, count: int) -> Manifest:
    drivers = [{"name": driver, "allocatable": {"count": count}} for driver in DRIVERS[: 1 + count % 2]]
    return obj("CSINode", name, spec={"drivers": drivers})


def _attachment(name: str, disk: int, to: int) -> Manifest:
    source = {"persistentVolumeName": DISKS[disk % 3]}
    return obj("VolumeAttachment", name, spec={"attacher": DRIVERS[0], "nodeName": NODES[to % 3], "source": source})


_KINDS: tuple[Callable[[str], Any], ...] = (
    *(lambda name, of=of: using(*of, name=name) for of in (["c0"], ["c1"], ["c2", "c3"], ["c0", "c1", "c2"], ["p1-v"])),
    lambda name: using(name=name).spec(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]),
    lambda name: using(name=name).spec(volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "d1"}}]),
    lambda name: using("", name=name),
    lambda name: using(f"own-{name}", name=name),
)


def _pod(number: int, kind: int) -> Any:
    name = f"p{number % 9}"
    return _KINDS[kind % len(_KINDS)](name).uid(name)


class Attempts:
    """A cluster and a plugin, the results of which are kept by cache key and generation of the node."""

    def __init__(self) -> None:
        nodes = [node(name) for name in NODES]
        self.cluster = Cluster(storage_class(), *(claim(f"own-p{i}") for i in range(9)), nodes=nodes)
        for i, name in enumerate(CLAIMS):
            self.cluster.show(_claim(name, i))
        for i, name in enumerate(DISKS):
            self.cluster.show(_disk(name, i))
        for i, name in enumerate(NODES):
            self.cluster.show(_csi_node(name, i + 1))
        self.plugin = self.new()
        self.cached: dict[Any, Outcome] = {}
        self.hits = 0

    def new(self) -> NodeVolumeLimits:
        return NodeVolumeLimits(NodeVolumeLimits.Args(), self.cluster.handle)

    def do(self, step: Step) -> None:
        what, number, kind, where = step
        getattr(self, what)(number, kind, where)

    def place(self, number: int, kind: int, where: int) -> None:
        pod = _pod(number, kind).build()
        self.cluster.state.remove(pod.uid)
        self.cluster.state.add_pod(_pod(number, kind).on(NODES[where % 3]).build())

    def remove(self, number: int, kind: int, where: int) -> None:
        self.cluster.state.remove(f"p{number % 9}")

    def claim(self, number: int, kind: int, where: int) -> None:
        self._put(_claim(CLAIMS[number % len(CLAIMS)], kind % 5), where)

    def disk(self, number: int, kind: int, where: int) -> None:
        self._put(_disk(DISKS[number % 3], kind % 4), where)

    def limit(self, number: int, kind: int, where: int) -> None:
        self._put(_csi_node(NODES[number % 3], LIMITS[kind % 5]), where)

    def attachment(self, number: int, kind: int, where: int) -> None:
        self._put(_attachment(f"va{number % 4}", kind, where), where // 3)

    def storage_class(self, number: int, kind: int, where: int) -> None:
        self._put(storage_class(provisioner=DRIVERS[kind % 2]), where)

    def node(self, number: int, kind: int, where: int) -> None:
        name, state = NODES[number % 3], self.cluster.state
        if where % 3 == 2 and name in {each.name for each in state.rows}:
            state.remove_node(name)  # the last node gets its position
        else:
            state.set_node(node(name).label("version", str(kind)).build())

    def _put(self, manifest: Manifest, where: int) -> None:
        (self.cluster.hide if where == 8 else self.cluster.show)(manifest)

    def attempt(self, number: int, kind: int, where: int) -> None:
        incoming = _pod(number, kind).build()
        self.cluster.state.remove(incoming.uid)
        table, cycle, plain = self.cluster.state.table(), _cycle(), _cycle()
        other = self.new()
        results = [subject.pre_filter(c, incoming, table) for subject, c in ((self.plugin, cycle), (other, plain))]
        assert results[0] == results[1]
        if results[0] is not None:
            assert results[0] is SKIP
            return
        key = self.plugin.filter_cache_key(cycle)
        # Of a copy of a node, as in a dry run, all volumes are looked up.
        expected = [_outcome(other, plain, incoming, info.copy()) for info in table]  # type: ignore[attr-defined]
        for info, outcome in zip(table, expected, strict=True):
            at = key, info.name, info.generation  # type: ignore[attr-defined]
            if key is not None and at in self.cached:
                self.hits += 1
                assert self.cached[at] == outcome
            elif where % 2:
                assert _outcome(self.plugin, cycle, incoming, info) == outcome
                self.cached[at] = outcome
        rejected = [outcome for outcome in expected if outcome and outcome.startswith("error")]
        if rejected:
            with pytest.raises(StatusError) as raised:
                self.plugin.filter_all(cycle, incoming, table)
            assert f"error: {raised.value}" in rejected
            return
        statuses = self.plugin.filter_all(cycle, incoming, table)
        reasons = [None, *("; ".join(each.reasons) for each in statuses.rejections)]
        assert [reasons[code] for code in statuses.codes.tolist()] == expected
        self.cached |= {(key, info.name, info.generation): o for info, o in zip(table, expected, strict=True)}  # type: ignore[attr-defined]


def _cycle() -> Cycle:
    return Cycle(0.0, "default", "uid")


def _outcome(plugin: NodeVolumeLimits, cycle: Cycle, pod: Pod, info: NodeInfo) -> Outcome:
    try:
        rejection: Rejection | None = plugin.filter(cycle, pod, info)
    except StatusError as error:
        return f"error: {error}"
    return "; ".join(rejection.reasons) if rejection else None


_STEPS = ("place", "place", "remove", "claim", "disk", "limit", "attachment", "storage_class", "storage_class", "node")
_DIGITS = st.integers(0, 8)


def _step(*what: str) -> st.SearchStrategy[Step]:
    return st.tuples(st.sampled_from(what), _DIGITS, _DIGITS, _DIGITS)


SCRIPTS = st.lists(_step(*_STEPS, *["attempt"] * 6), min_size=20, max_size=50)


def holds(script: list[Step]) -> None:
    attempts = Attempts()
    for step in script:
        attempts.do(step)


def test_results_hold_while_the_cache_key_is_the_same() -> None:
    quick(300)(given(SCRIPTS)(holds))()


def _ignore(kind: Any) -> Callable[[pytest.MonkeyPatch], None]:
    read = AttachedVolumes._invalidate
    instead = lambda self, of, key: {} if of is kind else read(self, of, key)  # noqa: E731
    return lambda patch: patch.setattr(AttachedVolumes, "_invalidate", instead)


def _share_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttachmentsLeft, "shared", lambda *_: frozenset())


def _keep_results_for_shared_volumes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttachmentsLeft, "_update_shared", lambda self, new: self.shared(new.volumes))


def _forget_attached_volumes(patch: pytest.MonkeyPatch) -> None:
    count = AttachmentsLeft._count

    def forget(self: AttachmentsLeft, *rest: Any) -> Any:
        counted = count(self, *rest)
        self._nodes_with.clear()
        return counted

    patch.setattr(AttachmentsLeft, "_count", forget)


def _count_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttachmentsLeft, "_count_again", lambda *_: None)


def _count_claims_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttachableVolumeCount, "of", lambda _, signature: len(signature.volume_claims))


def _keep_limits(patch: pytest.MonkeyPatch) -> None:
    reset = AttachmentsLeft._reset
    patch.setattr(AttachmentsLeft, "_reset", lambda self, nodes: None if self._names else reset(self, nodes))


def _keep_positions(patch: pytest.MonkeyPatch) -> None:
    same_number = lambda self, nodes: len(nodes) == len(self._names)  # noqa: E731
    patch.setattr(AttachmentsLeft, "_has_same_positions", same_number)


PLANTS = {
    "changed claims are ignored": _ignore(objects.CLAIM),
    "changed volumes are ignored": _ignore(objects.VOLUME),
    "changed classes are ignored": _ignore(objects.STORAGE_CLASS),
    "changed attachments are ignored": _ignore(objects.VOLUME_ATTACHMENT),
    "attached volumes count as new": _share_nothing,
    "results for shared volumes hold for others": _keep_results_for_shared_volumes,
    "volumes of counted nodes are forgotten": _forget_attached_volumes,
    "volumes are counted once": _count_once,
    "disks in specs of pods are ignored": _count_claims_only,
    "changed limits are ignored": _keep_limits,
    "moved nodes are ignored": _keep_positions,
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_planted_bugs_are_detected(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(holds, SCRIPTS, AssertionError, KeyError, StatusError, examples=1000)
