"""Interning of pod signatures: builds `Pod`s from decoded API objects, and pods of one template share a signature.

The key of a signature is the packed form of all fields that scheduling depends on. Fields that differ between pods of
one template without an effect on scheduling (the node, volumes of secrets and tokens, kubectl's annotation) are left
out. Pods of a StatefulSet differ in labels and claims, and those of a DaemonSet in the node that their affinity names,
so their common part is interned separately as a signature group.

A large cluster has a million pods, so their memory matters: repeated strings (namespace, node, phase) are interned, and
of a pod on a node neither its creation time nor any condition but DisruptionTarget is stored. Large pending pods have
compressed signatures (`large_signatures.py`).
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from sys import intern
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from pyscheduler.api.objects import (
    NodeSelector,
    NodeSelectorTerm,
    OwnerReference,
    PodCondition,
    PodObject,
    PodSpec,
    Volume,
)
from pyscheduler.api.pod import LARGE, Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.resize import RESIZE_PENDING, may_be_resized, resized
from pyscheduler.api.resources import affects_requests
from pyscheduler.core.state.large_signatures import Content, LargePod, LargeSignature, LargeSignatures

_NOISY_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_CONDITIONS_OF_ASSIGNED = ("DisruptionTarget", RESIZE_PENDING)
_DERIVED = -1
"""ID of the signatures that are not interned."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def derived(signature: PodSignature, **fields: object) -> PodSignature:
    """Return a signature with other values of these fields of the spec, for which nothing is cached."""
    template, spec = signature.template, replace(signature.spec, **fields)
    return PodSignature(
        _DERIVED,
        PodSignatureGroup(_DERIVED, signature.namespace, signature.owner, spec, template.resized),
        signature.labels,
        signature.annotations,
    )


class PodSignatures:
    """Signatures in use, each weakly referenced until its last pod is gone."""

    def __init__(self) -> None:
        self._signatures: WeakValueDictionary[tuple[int, bytes], PodSignature] = WeakValueDictionary()
        self._templates: WeakValueDictionary[bytes, PodSignatureGroup] = WeakValueDictionary()
        self._large = LargeSignatures(self._new_id)
        self._pack = msgspec.msgpack.Encoder().encode
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._signatures) + len(self._large)

    def pod(self, source: PodObject) -> Pod:
        """Return the pod of a decoded API object. Raises QuantityError or SelectorError if its spec is invalid."""
        meta, status = source.metadata, source.status
        uid = meta.uid or f"{meta.namespace}/{meta.name}"
        signature = self._signature(source)
        if isinstance(signature, LargeSignature):
            # A pod on a node stays decoded: every attempt reads its terms and labels.
            pod = (
                Pod(uid, meta.name, signature.signature)
                if source.spec.node_name
                else LargePod(uid, meta.name, signature)
            )
        else:
            pod = Pod(uid, meta.name, signature)
        pod.node_name = intern(source.spec.node_name)
        pod.nominated_node_name = intern(status.nominated_node_name)
        pod.phase = intern(status.phase)
        pod.deleting = meta.deletion_timestamp is not None
        pod.created = None if pod.node_name else meta.creation_timestamp
        if status.start_time:
            pod.started = _seconds(status.start_time)
        pod.generation = meta.generation
        pod.resource_version = meta.resource_version
        if status.resource_claim_statuses:
            pod.claim_statuses = status.resource_claim_statuses
        if status.conditions:
            pod.conditions = _of_assigned(status.conditions) if pod.node_name else status.conditions
        return pod

    def _signature(self, source: PodObject) -> PodSignature | LargeSignature:
        meta, status = source.metadata, source.status
        has_status = status.conditions or status.container_statuses or status.init_container_statuses
        resize = resized(source) if (has_status or status.resources) and may_be_resized(status) else None
        if resize is not None and not affects_requests(source.spec, resize):
            resize = None
        owner = _controller(meta.owner_references) if meta.owner_references else None
        spec = _without_noise(source.spec)
        common, claims = _without_claims(spec) if spec.volumes else (spec, ())
        common, nodes = _without_named_nodes(common) if spec.affinity else (common, ())
        annotations = meta.annotations or {}
        if _NOISY_ANNOTATION in annotations:
            annotations = {k: v for k, v in annotations.items() if k != _NOISY_ANNOTATION}
        template_key = self._pack((meta.namespace, owner, common, resize))
        packed = self._pack((meta.labels, annotations, claims, nodes))
        if len(template_key) + len(packed) > LARGE:
            return self._large.of(Content(meta.namespace, owner, spec, resize, meta.labels or {}, annotations))
        template = self._templates.get(template_key)
        if template is None:
            template = PodSignatureGroup(
                self._new_id(), intern(meta.namespace), owner, common, resize, len(template_key)
            )
            self._templates[template_key] = template
        key = (template.id, packed)
        signature = self._signatures.get(key)
        if signature is None:
            labels = {intern(k): intern(v) for k, v in (meta.labels or {}).items()}
            own = spec if claims or nodes else None
            signature = self._signatures[key] = PodSignature(
                self._new_id(), template, labels, annotations, own, len(packed)
            )
        return signature

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _seconds(timestamp: str) -> float:
    """Return a time in seconds since the epoch, infinity if it is invalid."""
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        return math.inf
    if time.tzinfo is UTC and not time.microsecond:  # as API servers write it; `timestamp` takes four times as long
        days = time.toordinal() - _EPOCH
        return 86_400.0 * days + (3_600 * time.hour + 60 * time.minute + time.second)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _controller(owners: tuple[OwnerReference, ...]) -> OwnerReference | None:
    for owner in owners:
        if owner.controller:
            return owner
    return None


def _without_noise(spec: PodSpec) -> PodSpec:
    volumes = spec.volumes
    if volumes:
        volumes = tuple([v for v in volumes if len(v) > ("name" in v)])
    changes: dict[str, Any] = {"node_name": "", "volumes": volumes or None}
    return replace(spec, **changes)


def _without_claims(spec: PodSpec) -> tuple[PodSpec, tuple[Any, ...]]:
    """Return the spec with the contents of its persistentVolumeClaim volumes removed, and those contents."""
    claims = tuple([v["persistentVolumeClaim"] for v in spec.volumes or () if "persistentVolumeClaim" in v])
    if claims:
        spec = replace(spec, volumes=tuple(map(_without_claim, spec.volumes or ())))
    return spec, claims


def _without_claim(volume: Volume) -> Volume:
    return {**volume, "persistentVolumeClaim": {}} if "persistentVolumeClaim" in volume else volume


def _without_named_nodes(spec: PodSpec) -> tuple[PodSpec, tuple[Any, ...]]:
    """Return the spec with the values of matchFields removed from its required node affinity, and those values."""
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return spec, ()
    node_affinity = affinity.node_affinity
    required = node_affinity.required_during_scheduling_ignored_during_execution
    terms = (required.node_selector_terms if required else None) or ()
    nodes = tuple([tuple([field.values for field in term.match_fields or ()]) for term in terms])
    if not any(nodes):
        return spec, ()
    unnamed = NodeSelector(node_selector_terms=tuple(map(_without_field_values, terms)))
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=unnamed)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity)), nodes


def _without_field_values(term: NodeSelectorTerm) -> NodeSelectorTerm:
    fields = term.match_fields
    return replace(term, match_fields=tuple([replace(field, values=None) for field in fields])) if fields else term


def _of_assigned(conditions: tuple[PodCondition, ...]) -> tuple[PodCondition, ...]:
    return tuple([c for c in conditions if c.type in _CONDITIONS_OF_ASSIGNED])
