"""Validation of metadata of all kinds: names, labels, annotations, finalizers, owners."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.selectors import valid_label_key, valid_label_value
from pyscheduler.embedded.status import Cause, forbidden_value, invalid_value, required

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
_MAX_ANNOTATIONS = 256 * 1024

_label_key = lru_cache(maxsize=4096)(valid_label_key)
_label_value = lru_cache(maxsize=4096)(valid_label_value)

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of at most 63 alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def name_problem(name: str, form: str = "subdomain") -> str:
    """Return the rule that an object name of the given form violates, "" if it is valid."""
    if form == "path":
        return "may not be '.' or '..' or contain '/' or '%'" if name in {".", ".."} or {"/", "%"} & set(name) else ""
    if form == "label":
        return "" if len(name) <= 63 and _LABEL.match(name) else LABEL_RULE
    return "" if len(name) <= 253 and _SUBDOMAIN.match(name) else SUBDOMAIN_RULE


def check_meta(resource: Resource, obj: Json) -> list[Cause]:
    """Return the causes that make the metadata of `obj` invalid."""
    meta = obj["metadata"]
    causes = []
    name = meta.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif problem := name_problem(name, resource.rules.name_form):
        causes.append(invalid_value("metadata.name", name, problem))
    if meta.get("labels"):
        causes += label_problems(meta["labels"], "metadata.labels")
    if meta.get("annotations"):
        causes += _annotation_problems(meta["annotations"])
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        causes += _owner_problems(owner, f"metadata.ownerReferences[{index}]")
    return causes


def label_problems(labels: Mapping[str, Any], path: str) -> list[Cause]:
    """Return causes for invalid label keys and values."""
    causes = []
    for key, value in labels.items():
        if not _label_key(key):
            causes.append(invalid_value(path, key, KEY_RULE))
        if not isinstance(value, str) or not _label_value(value):
            causes.append(invalid_value(path, value, VALUE_RULE))
    return causes


def _annotation_problems(annotations: Mapping[str, str]) -> list[Cause]:
    path = "metadata.annotations"
    causes = [invalid_value(path, key, KEY_RULE) for key in annotations if not _label_key(key.lower())]
    if sum(len(key) + len(value) for key, value in annotations.items()) > _MAX_ANNOTATIONS:
        causes.append(Cause(path, "FieldValueTooLong", f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes"))
    return causes


def _owner_problems(owner: Mapping[str, Any], path: str) -> list[Cause]:
    return [
        invalid_value(f"{path}.{field}", "", "must not be empty")
        for field in ("apiVersion", "kind", "name", "uid")
        if not owner.get(field)
    ]


def check_meta_change(new: Json, old: Json) -> list[Cause]:
    """Return a cause if finalizers are added to an object that is being deleted."""
    after, before = new["metadata"], old["metadata"]
    if before.get("deletionTimestamp"):
        added = set(after.get("finalizers") or ()) - set(before.get("finalizers") or ())
        if added:
            why = f"no new finalizers can be added if the object is being deleted, found new finalizers {sorted(added)}"
            return [forbidden_value("metadata.finalizers", why)]
    return []
