"""Objects other than pods and nodes that in-tree plugins look up, in several versions including absence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyscheduler.api import ResourceKind
from pyscheduler.intree.affinity.namespaces import NAMESPACE
from pyscheduler.intree.resource_claims.objects import DEVICE_CLASS
from pyscheduler.intree.spread.default_selector import SERVICES
from pyscheduler.intree.volumes.objects import CLAIM, CSI_NODE, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from tests.properties.sample_objects import NAMES
from tests.unit.intree.storage import ZONE, bound, claim, meta, obj, spec, storage_class, volume, within

Manifest = dict[str, Any]
_DRIVER = "maker"


def _attached(name: str, **fields: Any) -> Manifest:
    return volume(name, csi={"driver": _DRIVER, "volumeHandle": f"handle-{name}"}, **fields)


def _csi_node(name: str, count: int) -> Manifest:
    return obj("CSINode", name, spec={"drivers": [{"name": _DRIVER, "allocatable": {"count": count}}]})


def _attachment(name: str) -> Manifest:
    return obj(
        "VolumeAttachment",
        "a",
        spec={"attacher": _DRIVER, "nodeName": name, "source": {"persistentVolumeName": "free"}},
    )


_EXCLUSIVE = spec(bound("pv-2", "alone"), accessModes=["ReadWriteOncePod"])
_VERSIONS: tuple[tuple[ResourceKind, tuple[Manifest | None, ...]], ...] = (
    (CLAIM, (bound("pv-1", "data"), claim("data"), bound("pv-2", "data"), None)),
    (CLAIM, (_EXCLUSIVE, _EXCLUSIVE, bound("pv-2", "alone"))),
    (VOLUME, (meta(_attached("pv-1"), labels={ZONE: "b"}), _attached("pv-1", nodeAffinity=within("a")), None)),
    (VOLUME, (_attached("pv-2", nodeAffinity=within("a")), meta(_attached("pv-2"), labels={ZONE: "a__c"}))),
    (VOLUME, (_attached("free", nodeAffinity=within("b")), None)),
    (STORAGE_CLASS, (storage_class(provisioner="kubernetes.io/no-provisioner"), storage_class(), None)),
    (DEVICE_CLASS, (obj("DeviceClass", "gpu"), None)),
    (NAMESPACE, ({"metadata": {"name": "default", "labels": {"a": "b"}}}, None)),
    (SERVICES, (None, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"team": "red"}}})),
    (VOLUME_ATTACHMENT, (None, _attachment("n00"), _attachment("n01"))),
    *((CSI_NODE, (_csi_node(name, i % 3), _csi_node(name, 2), None)) for i, name in enumerate(NAMES[:5])),
)
OBJECTS = len(_VERSIONS)


class ObjectFixture:
    """Create, update and delete objects by two callbacks; `remove` is called with kind, namespace and name."""

    def __init__(
        self, store: Callable[[ResourceKind, Manifest], object], remove: Callable[[ResourceKind, str, str], object]
    ) -> None:
        self._store = store
        self._remove = remove
        for number in range(OBJECTS):
            self.put(number, 0)

    def put(self, number: int, version: int) -> ResourceKind:
        """Set the object of that number to a version, or remove it. Return its kind."""
        kind, versions = _VERSIONS[number % OBJECTS]
        chosen = versions[version % len(versions)]
        if chosen is not None:
            self._store(kind, chosen)
            return kind
        gone = next(v for v in versions if v is not None)["metadata"]
        self._remove(kind, gone.get("namespace", ""), gone["name"])
        return kind
