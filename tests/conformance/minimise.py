"""Reduction of a case: remove objects, then fields, as long as `still` returns True."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.generator.generated_cluster import Manifest

Still = Callable[[Manifest], bool]
_Path = tuple[str | int, ...]

_REQUIRED_FIELDS = """
    accessModes action apiVersion attacher claimName containerPort containers devices driver effect hostPort image
    iqn key kind lun maxSkew monitors name names namespace nodeName nodeSelectorTerms operator pdName
    podAffinityTerm preference provisioner reason required resourceClaimName resourceClaimTemplateName schedulerName
    sizeBytes source status storageClassName topologyKey type uid value values volumeBindingMode volumeHandle
    volumeID weight whenUnsatisfiable
"""
REQUIRED_FIELDS = frozenset(_REQUIRED_FIELDS.split())
"""Fields that identify the object or without which the API server would reject it."""


def minimised(document: Manifest, still: Still, limit: int = 1500) -> Manifest:
    """Return the smallest document found that satisfies `still`, after at most `limit` trials."""
    budget = [limit]

    def fits(candidate: Manifest) -> bool:
        if budget[0] <= 0 or not _is_whole(candidate):
            return False
        budget[0] -= 1
        return still(candidate)

    document = _one_pod(document, fits)
    plain = {key: value for key, value in document.items() if key != "config"}
    if "config" in document and "sequence" not in document and fits(plain):
        document = plain
    if "sequence" in document:
        document = _fewer("sequence", document, fits)
    document = _fewer("objects", document, fits)
    document = _fewer_fields(document, fits)
    return _fewer("objects", document, fits)


def _is_whole(document: Manifest) -> bool:
    """Return True if all listed pods exist."""
    metas = [o["metadata"] for o in document["objects"] if o["kind"] == "Pod"]
    there = {f"{meta.get('namespace')}/{meta.get('name')}" for meta in metas}
    return there.issuperset(document.get("sequence") or document.get("pods") or ())


def _one_pod(document: Manifest, fits: Still) -> Manifest:
    for pod in document.get("pods", ()):
        alone = {**document, "pods": [pod]}
        if len(document["pods"]) > 1 and fits(alone):
            return alone
    return document


def _fewer(part: str, document: Manifest, fits: Still) -> Manifest:
    """Remove runs of objects, or of pods of a sequence, long runs first."""
    size = max(1, len(document[part]) // 2)
    while True:
        start = 0
        while start < len(document[part]):
            items = document[part]
            shorter = {**document, part: items[:start] + items[start + size :]}
            if fits(shorter):
                document = shorter
            else:
                start += size
        if size == 1:
            return document
        size //= 2


def _fewer_fields(document: Manifest, fits: Still) -> Manifest:
    """Remove unneeded fields and list items, from the last to the first, outer ones first."""
    for number in range(len(document["objects"])):
        for path in _paths(document["objects"][number], ()):
            shorter = copy.deepcopy(document)
            if _removed(shorter["objects"][number], path) and fits(shorter):
                document = shorter
    return document


def _paths(value: Any, at: _Path) -> Iterator[_Path]:
    """Yield every path in the value, list items backwards so that earlier indexes stay valid."""
    if isinstance(value, dict):
        for key in value:
            if key not in REQUIRED_FIELDS:
                yield (*at, key)
            yield from _paths(value[key], (*at, key))
    elif isinstance(value, list):
        for number in reversed(range(len(value))):
            if len(value) > 1:
                yield (*at, number)
            yield from _paths(value[number], (*at, number))


def _removed(manifest: Any, path: _Path) -> bool:
    """Remove the value at the path; return False if it is gone already, or is the last item of a list."""
    try:
        for part in path[:-1]:
            manifest = manifest[part]
        if isinstance(manifest, list) and len(manifest) == 1:
            return False
        del manifest[path[-1]]
    except (KeyError, IndexError, TypeError):
        return False
    return path[-1] != "metadata"
