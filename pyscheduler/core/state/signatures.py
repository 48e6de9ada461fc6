"""Pods of one template share one signature: here decoded pods become `Pod`s with interned shapes.

The key of a signature is the packed form of everything scheduling reads. Fields that differ between siblings without
meaning anything to a scheduler (the node, secrets' and tokens' volumes, kubectl's bookkeeping) are left out of it.
Pods of a StatefulSet are less alike, since each has labels and claims of its own, and so are those of a DaemonSet, each
of which names a node; so what they do share is interned by itself.

A large cluster has hundreds of thousands of pods, so that every byte of one counts: what only repeats (the namespace,
the node, the phase) is one string for all, and of a pod that runs only those conditions are kept that tell that it is
about to go. A pod of megabytes that waits for a node is kept packed and compressed (`large.py`).
"""

from __future__ import annotations

from sys import intern
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from pyscheduler.api.objects import (
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PodCondition,
    PodObject,
    PodSpec,
    Volume,
)
from pyscheduler.api.pod import LARGE, Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.resize import resized
from pyscheduler.core.state.large_signatures import Content, LargePod, LargeSignature, LargeSignatures

_NOISY_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_DISRUPTION_TARGET = "DisruptionTarget"


class PodSignatures:
    """The shapes in use; one is forgotten when its last pod is."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[int, bytes], PodSignature] = WeakValueDictionary()
        self._templates: WeakValueDictionary[bytes, PodSignatureGroup] = WeakValueDictionary()
        self._large = LargeSignatures(self._new_id)
        self._pack = msgspec.msgpack.Encoder().encode
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._known) + len(self._large)

    def pod(self, source: PodObject) -> Pod:
        """The pod of a decoded API object. QuantityError or SelectorError if scheduling cannot read its spec."""
        meta, status = source.metadata, source.status
        uid = meta.uid or f"{meta.namespace}/{meta.name}"
        found = self._found(source)
        if isinstance(found, LargeSignature):
            # Of a pod that runs nothing is judged but its terms and labels, which are looked at in every attempt.
            pod = (
                Pod(uid, found.namespace, meta.name, found.signature)
                if source.spec.node_name
                else LargePod(uid, meta.name, found)
            )
        else:
            pod = Pod(uid, found.namespace, meta.name, found)
        pod.node_name = intern(source.spec.node_name)
        pod.nominated_node_name = status.nominated_node_name
        pod.phase = intern(status.phase)
        pod.deleting = meta.deletion_timestamp is not None
        pod.created = meta.creation_timestamp
        pod.start_time = status.start_time
        pod.generation = meta.generation
        pod.resource_version = meta.resource_version
        if status.conditions:
            pod.conditions = _about_to_go(status.conditions) if pod.node_name else status.conditions
        return pod

    def _found(self, source: PodObject) -> PodSignature | LargeSignature:
        meta, owner, held = source.metadata, _controller(source.metadata), resized(source)
        spec = _without_noise(source.spec)
        alike, claims = _without_claims(spec)
        alike, nodes = _without_named_nodes(alike)
        annotations = meta.annotations or {}
        if _NOISY_ANNOTATION in annotations:
            annotations = {k: v for k, v in annotations.items() if k != _NOISY_ANNOTATION}
        template_key = self._pack((meta.namespace, owner, alike, held))
        packed = self._pack((meta.labels, annotations, claims, nodes))
        if len(template_key) + len(packed) > LARGE:
            return self._large.of(Content(meta.namespace, owner, spec, held, meta.labels or {}, annotations))
        template = self._templates.get(template_key)
        if template is None:
            template = PodSignatureGroup(self._new_id(), intern(meta.namespace), owner, alike, held, len(template_key))
            self._templates[template_key] = template
        key = (template.id, packed)
        signature = self._known.get(key)
        if signature is None:
            labels = {intern(k): intern(v) for k, v in (meta.labels or {}).items()}
            own = spec if claims or nodes else None
            signature = self._known[key] = PodSignature(self._new_id(), template, labels, annotations, own, len(packed))
        return signature

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _controller(meta: ObjectMeta) -> OwnerReference | None:
    for owner in meta.owner_references or ():
        if owner.controller:
            return owner
    return None


def _without_noise(spec: PodSpec) -> PodSpec:
    volumes = tuple([v for v in spec.volumes or () if len(v) > ("name" in v)])
    changes: dict[str, Any] = {"node_name": "", "volumes": volumes or None}
    return replace(spec, **changes)


def _without_claims(spec: PodSpec) -> tuple[PodSpec, tuple[Any, ...]]:
    """The spec whose claims have no names, and what has been left out of it."""
    claims = tuple([v["persistentVolumeClaim"] for v in spec.volumes or () if "persistentVolumeClaim" in v])
    if claims:
        spec = replace(spec, volumes=tuple(map(_nameless, spec.volumes or ())))
    return spec, claims


def _nameless(volume: Volume) -> Volume:
    return {**volume, "persistentVolumeClaim": {}} if "persistentVolumeClaim" in volume else volume


def _without_named_nodes(spec: PodSpec) -> tuple[PodSpec, tuple[Any, ...]]:
    """The spec whose required node affinity names no nodes, and what has been left out of it."""
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return spec, ()
    node_affinity = affinity.node_affinity
    required = node_affinity.required_during_scheduling_ignored_during_execution
    terms = (required.node_selector_terms if required else None) or ()
    nodes = tuple([tuple([field.values for field in term.match_fields or ()]) for term in terms])
    if not any(nodes):
        return spec, ()
    unnamed = NodeSelector(node_selector_terms=tuple(map(_naming_no_nodes, terms)))
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=unnamed)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity)), nodes


def _naming_no_nodes(term: NodeSelectorTerm) -> NodeSelectorTerm:
    fields = term.match_fields
    return replace(term, match_fields=tuple([replace(field, values=None) for field in fields])) if fields else term


def _about_to_go(conditions: tuple[PodCondition, ...]) -> tuple[PodCondition, ...]:
    return tuple([c for c in conditions if c.type == _DISRUPTION_TARGET])
