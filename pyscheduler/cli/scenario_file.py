"""Scenario files of `pyscheduler simulate`, validated strictly; each error has its line and path.

All that is drawn is drawn here, so that a simulation depends on its scenario alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final

from pyscheduler.cli.cluster_dump import read_dumps
from pyscheduler.cli.cluster_file import PoolFields, check_kind, node_pools, raise_problems, read_document
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.config.decode import decode
from pyscheduler.config.problems import Report, did_you_mean, shown
from pyscheduler.embedded.hollow.pools import NodePool
from pyscheduler.embedded.hollow.template import node_object
from pyscheduler.simulator.scenario import (
    Arrival,
    NodeAction,
    NodeChange,
    PlacedManifest,
    Scenario,
    SimulationProblem,
)
from pyscheduler.simulator.workloads import identity, owners_of, workload_of

KIND: Final = "Scenario"
MAX_ARRIVALS: Final = 100_000
_NUMBER: Final = "{i}"
_Object = dict[str, Any]


@dataclass(frozen=True)
class _ArrivalFields:
    name: str
    at: float = 0.0
    every: object = None
    count: int = 1
    run_seconds: object = None
    objects: Sequence[Mapping[str, Any]] = ()
    file: str = ""


@dataclass(frozen=True)
class _ChangeFields:
    at: float
    node: str
    action: NodeAction


@dataclass(frozen=True)
class _ScenarioFields:
    api_version: str
    kind: str
    node_pools: Sequence[PoolFields] = ()
    objects: Sequence[Mapping[str, Any]] = ()
    files: Sequence[str] = ()
    arrivals: Sequence[_ArrivalFields] = ()
    changes: Sequence[_ChangeFields] = ()
    until: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class _Range:
    """Seconds from which a value is drawn."""

    least: float
    most: float

    def draw(self, rng: random.Random) -> float:
        return self.least if self.least == self.most else round(rng.uniform(self.least, self.most), 3)


@dataclass
class _Reader:
    """Decoding of one file."""

    file: Path
    lines: Mapping[str, int]
    report: Report
    problems: list[str] = field(default_factory=list)

    def scenario(self, document: Any) -> Scenario:
        fields = decode(_ScenarioFields, document, "", self.report)
        if fields is None:
            return Scenario()
        check_kind(fields.api_version, fields.kind, KIND, self.report)
        if fields.until is not None and fields.until <= 0:
            self.report.add("until", f"must be above 0, not {fields.until:g}")
        pools = node_pools(fields.node_pools, self.report)
        objects = [*self.inline(fields.objects, "objects")]
        for i, file in enumerate(fields.files):
            objects += self.read(file, f"files[{i}]")
        nodes = [*_nodes(pools), *(each for each in objects if each.manifest.get("kind") == "Node")]
        if not nodes and not self.report.problems:
            self.report.add("nodePools", "has no nodes, and neither have objects and files")
        arrivals = list(self.arrivals(fields, random.Random(fields.seed)))
        changes = list(self.changes(fields.changes, [each.manifest["metadata"]["name"] for each in nodes]))
        if not self.report.problems:
            _check_workloads(objects, arrivals)
        return Scenario(
            [*_nodes(pools), *objects],
            sorted(arrivals, key=lambda arrival: arrival.at),
            sorted(changes, key=lambda change: change.at),
            fields.until,
            fields.seed,
        )

    def place(self, path: str) -> str:
        """Return file, line and path for errors about an object."""
        line = self.lines.get(path)
        return f"{self.file}:{line}: {path}" if line else f"{self.file}: {path}"

    def inline(self, objects: Sequence[Mapping[str, Any]], path: str) -> Iterator[PlacedManifest]:
        """Yield the valid ones of inline manifests."""
        for i, obj in enumerate(objects):
            here = f"{path}[{i}]"
            missing = [key for key in ("apiVersion", "kind") if not isinstance(obj.get(key), str)]
            for key in missing:
                self.report.add(f"{here}.{key}", "is required")
            meta = obj.get("metadata")
            if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str) or not meta["name"]:
                self.report.add(f"{here}.metadata.name", "is required, as text")
            elif not missing:
                self.check_parts(obj, here)
                yield PlacedManifest(self.place(here), dict(obj))

    def check_parts(self, obj: Mapping[str, Any], path: str) -> None:
        """Report parts of an object, or of its pod template, that are no mappings."""
        parts: list[tuple[str, Any]] = [("spec", obj.get("spec")), ("status", obj.get("status"))]
        for prefix, meta in (
            ("", _part(obj, "metadata")),
            ("spec.template.", _part(obj, "spec", "template", "metadata")),
        ):
            parts += [(f"{prefix}metadata", meta)]
            for name in ("labels", "annotations") if isinstance(meta, Mapping) else ():
                parts.append((f"{prefix}metadata.{name}", meta.get(name)))
        for name, part in parts:
            if part is not None and not isinstance(part, Mapping):
                self.report.add(f"{path}.{name}", f"must be a mapping, not {shown(part)}")
        owners = _part(obj, "metadata", "ownerReferences")
        claims = _part(obj, "spec", "resourceClaims"), _part(obj, "spec", "template", "spec", "resourceClaims")
        for name, listed in (("metadata.ownerReferences", owners), *(("spec.resourceClaims", each) for each in claims)):
            if listed is not None and not (isinstance(listed, list) and all(isinstance(v, Mapping) for v in listed)):
                self.report.add(f"{path}.{name}", "must be a list of mappings")

    def read(self, file: str, path: str) -> list[PlacedManifest]:
        """Return the objects of a file, relative to the scenario."""
        found = self.file.parent / file
        try:
            objects = [PlacedManifest(each.place, each.object) for each in read_dumps([found])]
        except CommandProblem as problem:
            self.report.add(path, str(problem))
            return []
        for each in objects:
            self.check_parts(each.manifest, f"{path}: {each.place}")
        return objects

    def arrivals(self, fields: _ScenarioFields, rng: random.Random) -> Iterator[Arrival]:
        names: set[str] = set()
        identities: dict[tuple[str, ...], str] = {}
        for i, each in enumerate(fields.arrivals):
            path = f"arrivals[{i}]"
            if each.name in names:
                self.report.add(f"{path}.name", f"two arrivals are named {shown(each.name)}")
            names.add(each.name)
            every, run = self.range(each.every, f"{path}.every"), self.range(each.run_seconds, f"{path}.runSeconds")
            self.check_numbers(each, path, every, run)
            objects = [*self.inline(each.objects, f"{path}.objects")]
            objects += self.read(each.file, f"{path}.file") if each.file else []
            if not each.objects and not each.file:
                self.report.add(path, "needs objects or file")
            self.check_names(objects, each.count, path, identities)
            if not self.report.problems:
                at = each.at
                for number in range(1, each.count + 1):
                    yield Arrival(each.name, at, number, run.draw(rng) if run else None, objects)
                    at += every.draw(rng) if every else 0.0

    def check_numbers(self, each: _ArrivalFields, path: str, every: _Range | None, run: _Range | None) -> None:
        if each.at < 0:
            self.report.add(f"{path}.at", f"must not be negative, is {each.at:g}")
        if not 1 <= each.count <= MAX_ARRIVALS:
            self.report.add(f"{path}.count", f"must be from 1 to {MAX_ARRIVALS:,}, not {each.count}")
        if run is not None and run.least <= 0:
            self.report.add(f"{path}.runSeconds", f"must be above 0, not {run.least:g}")
        if every is not None and each.count == 1:
            self.report.add(f"{path}.every", "has no effect without count")

    def check_names(
        self, objects: Sequence[PlacedManifest], count: int, path: str, identities: dict[tuple[str, ...], str]
    ) -> None:
        """Report objects that would be created twice."""
        for placed in objects:
            obj, name = placed.manifest, str(placed.manifest["metadata"]["name"])
            if count > 1 and _NUMBER not in name:
                self.report.add(f"{path}.objects", f'{obj["kind"]} "{name}" would be created {count} times: add {{i}}')
            key = (str(obj["apiVersion"]), *identity(obj))
            if key in identities:
                self.report.add(f"{path}.objects", f'{obj["kind"]} "{name}" is in {identities[key]}, too')
            identities.setdefault(key, path)

    def range(self, value: object, path: str) -> _Range | None:
        """Return a number of seconds, or a list of the least and the most."""
        bounds: list[Any] = value if isinstance(value, list) else [value, value]
        if value is None:
            return None
        if len(bounds) != 2 or not all(_is_number(bound) for bound in bounds):
            self.report.add(path, f"must be a number of seconds or a list [least, most], not {shown(value)}")
        elif not 0 <= bounds[0] <= bounds[1]:
            self.report.add(path, f"must be 0 or more, the least first, not {bounds[0]:g} to {bounds[1]:g}")
        else:
            return _Range(float(bounds[0]), float(bounds[1]))
        return None

    def changes(self, changes: Sequence[_ChangeFields], nodes: Sequence[str]) -> Iterator[NodeChange]:
        known = set(nodes)
        for i, each in enumerate(changes):
            path = f"changes[{i}]"
            if each.at < 0:
                self.report.add(f"{path}.at", f"must not be negative, is {each.at:g}")
            if known and each.node not in known:
                self.report.add(f"{path}.node", f"no node is named {shown(each.node)}{did_you_mean(each.node, known)}")
            yield NodeChange(each.at, each.node, each.action, self.place(path))


def read_scenario(file: Path) -> Scenario:
    """Return the scenario of a file. ConfigError lists all problems with line and path; CommandProblem."""
    document = read_document(file, KIND)
    report = Report(document.lines)
    try:
        scenario = _Reader(file, document.lines, report).scenario(document.value)
    except SimulationProblem as problem:
        raise_problems(document, report, file)
        raise CommandProblem(str(problem)) from None
    raise_problems(document, report, file)
    return scenario


def _nodes(pools: Sequence[NodePool]) -> list[PlacedManifest]:
    return [PlacedManifest("nodePools", node_object(each, "", 0.0)) for pool in pools for each in pool.templates()]


def _check_workloads(objects: Sequence[PlacedManifest], arrivals: Sequence[Arrival]) -> None:
    """Raise SimulationProblem for the first workload that cannot be simulated."""
    owners = owners_of(objects)
    for placed in objects:
        if identity(placed.manifest) not in owners:
            workload_of(placed)
    for arrival in arrivals:
        if arrival.number == 1:
            for placed in arrival.manifests():
                workload_of(placed, arrival.run_seconds)


def _part(obj: Any, *path: str) -> Any:
    """Return the value at a path of keys, None if there is none."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < inf
