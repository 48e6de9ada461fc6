"""Kustomizations as objects, without kubectl: the fields that the manifests of this project use.

The result is that of `kubectl kustomize`, order included. Any other field is an error, so nothing is left out silently.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from pyscheduler.cli.command_problem import CommandProblem, unreadable

Json = dict[str, Any]
FILE: Final = "kustomization.yaml"

_FIELDS: Final = ("apiVersion", "kind", "namespace", "resources", "configMapGenerator", "labels", "images", "patches")
_ITEM_FIELDS: Final = {
    "configMapGenerator": ("name", "namespace", "behavior", "files", "options"),
    "labels": ("pairs",),
    "images": ("name", "newName", "newTag"),
    "patches": ("path", "patch", "target"),
}
_INNER_FIELDS: Final = {"options": ("disableNameSuffixHash", "labels"), "target": ("kind", "name")}
_IMAGE: Final = re.compile(r"(?P<name>.*?)(?P<version>(:[^:/@]+)?(@.+)?)")
_CLUSTER_SCOPED: Final = (
    *("Namespace", "PriorityClass", "StorageClass", "PersistentVolume", "CustomResourceDefinition"),
    *("ClusterRole", "ClusterRoleBinding", "DeviceClass", "RuntimeClass"),
)
_ORDER: Final = (
    *("Namespace", "ResourceQuota", "StorageClass", "CustomResourceDefinition", "ServiceAccount", "PodSecurityPolicy"),
    *("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret", "Endpoints", "Service"),
    *("LimitRange", "PriorityClass", "PersistentVolume", "PersistentVolumeClaim", "Deployment", "StatefulSet"),
    *("CronJob", "PodDisruptionBudget"),
)
"""Kinds in kustomize's order of creation (SortOrderTransformer); all others follow."""
_MERGE_KEYS: Final = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env"), "name"),
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
"""Keys of the lists in a pod template that strategic merge patches merge by item."""
_HASH_LETTERS: Final = str.maketrans("013ae", "ghkmt")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Item(NamedTuple):
    """Object, and True if a hash of its content becomes part of its name."""

    object: Json
    is_hashed: bool = False


def render(folder: Path, change: Callable[[list[Json]], None] = lambda _: None) -> list[Json]:
    """Return the objects of a kustomization in the order of their creation. CommandProblem names file and field.

    `change` edits the objects before the names of generated ConfigMaps get the hash of their content.
    """
    items = _build(folder)
    change([item.object for item in items])
    _append_hashes(items)
    return sorted((item.object for item in items), key=_place)


def read_documents(file: Path) -> list[Json]:
    """Return the YAML documents of a file. CommandProblem if it cannot be read."""
    return _documents(_text(file), file)


def _documents(text: str, file: Path) -> list[Json]:
    try:
        return [document for document in yaml.load_all(text, _LOADER) if document]
    except yaml.YAMLError as error:
        raise CommandProblem(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None


def pod_specs(objects: Iterable[Json]) -> Iterator[Json]:
    """Yield the specs of Pods and of the pod templates of workloads."""
    for obj in objects:
        spec = obj.get("spec") or {}
        if obj["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if obj["kind"] == "Pod":
            yield spec
        elif isinstance(spec, dict) and "spec" in (spec.get("template") or {}):
            yield spec["template"]["spec"]


def containers(spec: Json) -> Iterator[Json]:
    """Yield the init containers and containers of a pod spec."""
    yield from (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))


def _build(folder: Path) -> list[_Item]:
    file = folder / FILE
    documents = read_documents(file)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise CommandProblem(f"{file}: must be one Kustomization")
    kustomization = documents[0]
    _check_fields(file, kustomization)
    items = [item for name in kustomization.get("resources") or () for item in _resource(folder / name)]
    for generator in kustomization.get("configMapGenerator") or ():
        items = _generate(items, folder, generator)
    for patch in kustomization.get("patches") or ():
        items = _patch(items, folder, patch)
    for obj, _ in items:
        _transform(obj, kustomization)
    return items


def _check_fields(file: Path, kustomization: Json) -> None:
    """Reject each field that is not rendered, at any depth."""
    _reject_unknown(file, "", kustomization, _FIELDS)
    for name, supported in _ITEM_FIELDS.items():
        for item in kustomization.get(name) or ():
            _reject_unknown(file, f"{name}.", item, supported)
            for inner, fields in _INNER_FIELDS.items():
                _reject_unknown(file, f"{name}.{inner}.", item.get(inner) or {}, fields)


def _reject_unknown(file: Path, place: str, fields: Mapping[str, Any], supported: tuple[str, ...]) -> None:
    for name in fields:
        if name not in supported:
            raise CommandProblem(f"{file}: {place}{name}: is not supported here; use `kubectl apply -k {file.parent}`")


def _resource(path: Path) -> list[_Item]:
    return _build(path.resolve()) if path.is_dir() else [_Item(document) for document in read_documents(path)]


def _generate(items: list[_Item], folder: Path, generator: Mapping[str, Any]) -> list[_Item]:
    """Add the ConfigMap of a generator, or replace that of the base, which keeps its labels."""
    options = generator.get("options") or {}
    metadata: Json = {"name": generator["name"]}
    if "namespace" in generator:
        metadata["namespace"] = generator["namespace"]
    if "labels" in options:
        metadata["labels"] = dict(options["labels"])
    data = {name: _text(folder / name) for name in generator["files"]}
    new = _Item(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        not options.get("disableNameSuffixHash"),
    )
    if generator.get("behavior", "create") == "create":
        return [*items, new]
    for at, (old, _) in enumerate(items):
        if old["kind"] == "ConfigMap" and old["metadata"]["name"] == metadata["name"]:
            new.object["metadata"] = {**old["metadata"], **metadata}
            return [*items[:at], new, *items[at + 1 :]]
    raise CommandProblem(f"{folder / FILE}: configMapGenerator: there is no {metadata['name']} to replace")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise unreadable(file, error) from None


def _patch(items: list[_Item], folder: Path, patch: Mapping[str, Any]) -> list[_Item]:
    """Apply a strategic merge patch to its targets: by default the object with its kind and name."""
    file = folder / FILE
    changes = read_documents(folder / patch["path"]) if "path" in patch else _documents(patch.get("patch", ""), file)
    change = changes[0] if len(changes) == 1 else None
    if not isinstance(change, dict) or "kind" not in change or "name" not in change.get("metadata", {}):
        text = "must be strategic merge patches with kind and metadata.name; for others use"
        raise CommandProblem(f"{file}: patches: {text} `kubectl apply -k {folder}`")
    name = re.escape(change["metadata"].pop("name"))
    target = patch.get("target") or {"kind": re.escape(change["kind"]), "name": name}
    is_deletion = change.pop("$patch", "") == "delete"
    fields = {field: value for field, value in change.items() if field not in ("apiVersion", "kind")}
    patched = []
    for item in items:
        if not _matches(item.object, target):
            patched.append(item)
        elif not is_deletion:
            patched.append(item._replace(object=_merged(item.object, fields)))
    return patched


def _matches(obj: Json, target: Mapping[str, str]) -> bool:
    """Return True if kind and name match the target's regular expressions; a missing one matches all."""
    return bool(
        re.fullmatch(target.get("kind", ".*"), obj["kind"])
        and re.fullmatch(target.get("name", ".*"), obj["metadata"]["name"])
    )


def _merged(target: Json, patch: Mapping[str, Any]) -> Json:
    """Return the object with a strategic merge patch applied; null removes a field, items of the patch come first."""
    result = dict(target)
    for name, value in patch.items():
        present = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _merged(present or {}, value)
        elif isinstance(value, list) and name in _MERGE_KEYS:
            result[name] = _merged_items(present or [], value, _MERGE_KEYS[name])
        else:
            result[name] = value
    return result


def _merged_items(present: list[Json], patch: list[Json], key: str) -> list[Json]:
    by_key = {item[key]: item for item in present}
    changed = [_merged(by_key.pop(item[key], {}), item) for item in patch]
    return [*changed, *by_key.values()]


def _transform(obj: Json, kustomization: Mapping[str, Any]) -> None:
    """Set namespace, labels and images of one object."""
    metadata = obj["metadata"]
    if "namespace" in kustomization and obj["kind"] not in _CLUSTER_SCOPED:
        metadata["namespace"] = kustomization["namespace"]
    for label in kustomization.get("labels") or ():
        metadata["labels"] = {**metadata.get("labels", {}), **label["pairs"]}
    for image in kustomization.get("images") or ():
        for spec in pod_specs([obj]):
            for container in containers(spec):
                found = _IMAGE.fullmatch(container.get("image", ""))
                if found and found["name"] == image["name"]:
                    version = f":{image['newTag']}" if "newTag" in image else found["version"]
                    container["image"] = image.get("newName", image["name"]) + version


def _append_hashes(items: Iterable[_Item]) -> None:
    """Append the hash of its content to the name of each generated ConfigMap, also where a pod refers to it."""
    objects = [item.object for item in items]
    for obj in (item.object for item in items if item.is_hashed):
        name = obj["metadata"]["name"]
        obj["metadata"]["name"] = f"{name}-{_content_hash(obj)}"
        for reference in _config_map_references(objects):
            if reference.get("name") == name:
                reference["name"] = obj["metadata"]["name"]


def _config_map_references(objects: Iterable[Json]) -> Iterator[Json]:
    """Yield what names a ConfigMap in the pod specs of the objects."""
    for spec in pod_specs(objects):
        for volume in spec.get("volumes") or ():
            yield volume.get("configMap") or {}
            yield from (each.get("configMap") or {} for each in (volume.get("projected") or {}).get("sources") or ())
        for container in containers(spec):
            yield from (each.get("configMapRef") or {} for each in container.get("envFrom") or ())
            variables = container.get("env") or ()
            yield from ((each.get("valueFrom") or {}).get("configMapKeyRef") or {} for each in variables)


def _content_hash(obj: Json) -> str:
    """Return the suffix that kustomize gives a ConfigMap: of the SHA-256 of its JSON in Go's form, without a name."""
    content = {"data": obj["data"], "kind": "ConfigMap", "name": ""}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return hashlib.sha256(text.encode()).hexdigest()[:10].translate(_HASH_LETTERS)


def _place(obj: Json) -> tuple[int, str, str, str, str]:
    """Return the sort key of an object: its kind's place in kustomize's order, then its identity."""
    kind, metadata = obj["kind"], obj["metadata"]
    at = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    group, _, version = obj["apiVersion"].rpartition("/")
    return at, f"{group}_{version}", kind, metadata.get("namespace", ""), metadata["name"]
