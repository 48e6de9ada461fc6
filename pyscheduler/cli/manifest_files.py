"""Manifest files for `up --apply`: all are read and validated before the first object is created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pyscheduler.cli import kustomize
from pyscheduler.cli.command_problem import CommandProblem, unreadable
from pyscheduler.embedded import Api
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import WriteOptions
from pyscheduler.embedded.status import ApiStatusError

_SUFFIXES = (".yaml", ".yml", ".json")
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass")
_CRD = "CustomResourceDefinition"
_READERS = {
    "EmbeddedCluster": "--cluster",
    "Scenario": "`pyscheduler simulate`",
    "KubeSchedulerConfiguration": "--config",
}
"""Options and commands that read pyscheduler's own kinds of files, which are no API objects."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Object to create, and its place in the file."""

    place: str
    object: Json

    @property
    def kind(self) -> tuple[str, str]:
        return str(self.object["apiVersion"]), str(self.object["kind"])


def read_manifests(paths: Sequence[Path]) -> list[Manifest]:
    """Read all objects of files, kustomizations, and of the YAML and JSON files in folders.

    CommandProblem names file and place.
    """
    return [manifest for path in paths for manifest in _read_path(path)]


def apply(api: Api, manifests: Sequence[Manifest]) -> None:
    """Create all objects, required kinds first. CommandProblem, with nothing created, if the dry run rejects one."""
    ordered = sorted(manifests, key=lambda m: _FIRST.index(m.kind[1]) if m.kind[1] in _FIRST else len(_FIRST))
    new_kinds = {_defined(m.object) for m in ordered if m.kind[1] == _CRD}
    namespaces = {m.object["metadata"]["name"] for m in ordered if m.kind[1] == "Namespace"}
    for manifest in ordered:
        if manifest.kind not in new_kinds and _namespace(manifest.object) not in namespaces:
            _create(api, manifest, WriteOptions(dry_run=True, validation="Strict"))
    for manifest in ordered:
        _create(api, manifest, WriteOptions(validation="Strict"))


def _read_path(path: Path) -> Iterator[Manifest]:
    if (path / kustomize.FILE).is_file():
        for obj in kustomize.render(path):
            yield from _objects(obj, str(path))
        return
    for file in _files(path):
        yield from _read(file)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES)
        if not files:
            raise CommandProblem(f"{path}: has no .yaml, .yml or .json files to apply")
        return files
    return [path]


def _read(path: Path) -> Iterator[Manifest]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise CommandProblem(f"{place}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield from _objects(document, f"{path}: document {number}" if len(documents) > 1 else str(path))


def _objects(document: Any, place: str) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise CommandProblem(
            f"{place}: must be a Kubernetes object with apiVersion, kind and metadata, is {type(document).__name__}"
        )
    if document.get("kind") == "List":
        for i, item in enumerate(document.get("items") or ()):
            yield from _objects(item, f"{place}: items[{i}]")
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            raise CommandProblem(f"{place}: {field}: is required; write it as for `kubectl apply`")
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        hint = f"; a {document['kind']} is read by {_READERS[document['kind']]}" if document["kind"] in _READERS else ""
        raise CommandProblem(f"{place}: metadata.name: is required, or metadata.generateName{hint}")
    yield Manifest(place, document)


def _create(api: Api, manifest: Manifest, options: WriteOptions) -> None:
    resource = _resource(api, manifest)
    namespace = _namespace(manifest.object) if resource.namespaced else ""
    try:
        api.create(resource, namespace, manifest.object, options)
    except ApiStatusError as error:
        raise CommandProblem(f"{manifest.place}: {error.message}") from None


def _resource(api: Api, manifest: Manifest) -> Resource:
    version, kind = manifest.kind
    resource = api.state.registry.of_kind(version, kind)
    if resource is None:
        served = sorted({each.api_version for each in api.state.registry if each.kind == kind})
        others = f"; {kind} is served in {', '.join(served)}" if served else ""
        hint = f"apply its CustomResourceDefinition, or correct apiVersion and kind{others}"
        raise CommandProblem(f"{manifest.place}: kind: no {kind} in {version} is served; {hint}")
    return resource


def _namespace(obj: Json) -> str:
    return str(obj["metadata"].get("namespace") or "default")


def _defined(crd: Json) -> tuple[str, str]:
    """Return apiVersion and kind of the first version that a CustomResourceDefinition defines."""
    spec = crd.get("spec") or {}
    versions: Iterable[Json] = spec.get("versions") or ({},)
    version = next(iter(versions)).get("name", "")
    return f"{spec.get('group', '')}/{version}", str((spec.get("names") or {}).get("kind", ""))
