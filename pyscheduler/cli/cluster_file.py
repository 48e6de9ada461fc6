"""Cluster files of `up --cluster`: node pools in YAML, validated strictly; each error has its line and path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyscheduler.api.counts import counted
from pyscheduler.api.quantity import QuantityError, value
from pyscheduler.config.decode import decode
from pyscheduler.config.problems import ConfigError, Problem, Report, shown
from pyscheduler.config.yaml_reader import Document, InvalidYaml, read
from pyscheduler.embedded.admission.meta import LABEL_RULE, label_problems, name_problem
from pyscheduler.embedded.hollow.pools import POOL_LABEL, ZONE_LABEL, NodePool
from pyscheduler.embedded.selectors import valid_label_key

API_VERSION: Final = "pyscheduler.io/v1"
KIND: Final = "EmbeddedCluster"
MAX_NODES: Final = 100_000
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DEFAULTS = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_NATIVE = (*_DEFAULTS, "ephemeral-storage")


@dataclass(frozen=True)
class TaintFields:
    """Taint in a file."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True)
class PoolFields:
    """Node pool in a file."""

    name: str
    count: int = 1
    capacity: Mapping[str, str | int | float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: Sequence[str] = ()
    taints: Sequence[TaintFields] = ()


@dataclass(frozen=True)
class _ClusterFields:
    api_version: str
    kind: str
    node_pools: Sequence[PoolFields]


def read_cluster_file(file: Path) -> list[NodePool]:
    """Return the node pools of a cluster file. ConfigError lists all problems with line and path."""
    document = read_document(file, KIND)
    report = Report(document.lines)
    pools = _pools(document.value, report)
    raise_problems(document, report, file)
    return pools


def read_document(file: Path, kind: str) -> Document:
    """Return the document of a file of one of our kinds. ConfigError if it is not one YAML document."""
    source = str(file)
    try:
        documents = read(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError([Problem("", f"cannot be read: {error.strerror or error}")], source) from None
    except ValueError as error:
        raise ConfigError([Problem("", f"is not a text file in UTF-8: {error}")], source) from None
    except InvalidYaml as error:
        raise ConfigError([error.problem], source) from None
    if len(documents) != 1:
        raise ConfigError(
            [Problem("", f"holds {counted(len(documents), 'YAML document')}, must be one {kind}")], source
        )
    return documents[0]


def raise_problems(document: Document, report: Report, file: Path) -> None:
    """Raise ConfigError if a document or its decoding has problems."""
    if problems := [*document.problems, *report.problems]:
        raise ConfigError(problems, str(file))


def check_kind(api_version: str, kind: str, expected: str, report: Report) -> None:
    """Report a document of another kind."""
    for path, found, wanted in (("apiVersion", api_version, API_VERSION), ("kind", kind, expected)):
        if found != wanted:
            report.add(path, f"must be {wanted}, not {shown(found)}")


def _pools(document: Any, report: Report) -> list[NodePool]:
    fields = decode(_ClusterFields, document, "", report)
    if fields is None:
        return []
    check_kind(fields.api_version, fields.kind, KIND, report)
    if not fields.node_pools:
        report.add("nodePools", "must name at least one pool")
    return node_pools(fields.node_pools, report)


def node_pools(fields: Sequence[PoolFields], report: Report) -> list[NodePool]:
    """Return the node pools of a file, none if there are problems in the report."""
    names: set[str] = set()
    for i, pool in enumerate(fields):
        _check_pool(pool, f"nodePools[{i}]", report)
        if pool.name in names:
            report.add(f"nodePools[{i}].name", f"two pools are named {shown(pool.name)}")
        names.add(pool.name)
    if sum(pool.count for pool in fields) > MAX_NODES:
        report.add("nodePools", f"has more than {MAX_NODES:,} nodes")
    return [] if report.problems else [_pool(pool) for pool in fields]


def _check_pool(pool: PoolFields, path: str, report: Report) -> None:
    if name_problem(pool.name, "label") or len(pool.name) > 50:
        report.add(f"{path}.name", f"{shown(pool.name)} is not a name of at most 50 characters: {LABEL_RULE}")
    if not 0 <= pool.count <= MAX_NODES:
        report.add(f"{path}.count", f"must be from 0 to {MAX_NODES:,}, not {pool.count}")
    for name, amount in pool.capacity.items():
        _check_amount(name, amount, f"{path}.capacity.{name}", report)
    for key in (POOL_LABEL, ZONE_LABEL) if pool.zones else (POOL_LABEL,):
        if key in pool.labels:
            report.add(f"{path}.labels", f"{key} is set by the pool's {'zones' if key == ZONE_LABEL else 'name'}")
    for cause in label_problems(pool.labels, "labels"):
        report.add(f"{path}.labels", cause.message)
    for i, zone in enumerate(pool.zones):
        for cause in label_problems({ZONE_LABEL: zone}, ""):
            report.add(f"{path}.zones[{i}]", cause.message)
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(pool.taints):
        _check_taint(taint, f"{path}.taints[{i}]", report)
        if (taint.key, taint.effect) in seen:
            report.add(f"{path}.taints[{i}]", f"{taint.key}:{taint.effect} is there twice")
        seen.add((taint.key, taint.effect))


def _check_amount(name: str, amount: str | float, path: str, report: Report) -> None:
    if name not in _NATIVE and ("/" not in name or not valid_label_key(name)) and not name.startswith("hugepages-"):
        report.add(path, f"is no resource; use {', '.join(_NATIVE)} or an extended one such as nvidia.com/gpu")
    try:
        if value(amount) < 0:
            report.add(path, f"must not be negative, is {shown(amount)}")
    except QuantityError as problem:
        report.add(path, str(problem))


def _check_taint(taint: TaintFields, path: str, report: Report) -> None:
    if not valid_label_key(taint.key):
        report.add(f"{path}.key", f"{shown(taint.key)} is not a qualified name such as example.com/dedicated")
    if taint.effect not in _EFFECTS:
        report.add(f"{path}.effect", f"{shown(taint.effect)} is none of: {', '.join(_EFFECTS)}")
    if label_problems({"value": taint.value}, ""):
        report.add(f"{path}.value", f"{shown(taint.value)} is not a label value")


def _pool(fields: PoolFields) -> NodePool:
    amounts = _DEFAULTS | {name: str(amount) for name, amount in fields.capacity.items()}
    taints = [_taint(taint) for taint in fields.taints]
    return NodePool(fields.name, fields.count, amounts, dict(fields.labels), tuple(fields.zones), taints)


def _taint(fields: TaintFields) -> dict[str, str]:
    return {"key": fields.key, **({"value": fields.value} if fields.value else {}), "effect": fields.effect}
