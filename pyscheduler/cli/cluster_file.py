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
from pyscheduler.config.yaml_reader import InvalidYaml, read
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
class _TaintFields:
    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True)
class _PoolFields:
    name: str
    count: int = 1
    capacity: Mapping[str, str | int | float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: Sequence[str] = ()
    taints: Sequence[_TaintFields] = ()


@dataclass(frozen=True)
class _ClusterFields:
    api_version: str
    kind: str
    node_pools: Sequence[_PoolFields]


def read_cluster_file(file: Path) -> list[NodePool]:
    """Return the node pools of a cluster file. ConfigError lists all problems with line and path."""
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
            [Problem("", f"holds {counted(len(documents), 'YAML document')}, must be one {KIND}")], source
        )
    document = documents[0]
    report = Report(document.lines)
    pools = _pools(document.value, report)
    problems = [*document.problems, *report.problems]
    if problems:
        raise ConfigError(problems, source)
    return pools


def _pools(document: Any, report: Report) -> list[NodePool]:
    fields = decode(_ClusterFields, document, "", report)
    if fields is None:
        return []
    for path, found, expected in (("apiVersion", fields.api_version, API_VERSION), ("kind", fields.kind, KIND)):
        if found != expected:
            report.add(path, f"must be {expected}, not {shown(found)}")
    if not fields.node_pools:
        report.add("nodePools", "must name at least one pool")
    names: set[str] = set()
    for i, pool in enumerate(fields.node_pools):
        _check_pool(pool, f"nodePools[{i}]", report)
        if pool.name in names:
            report.add(f"nodePools[{i}].name", f"two pools are named {shown(pool.name)}")
        names.add(pool.name)
    if sum(pool.count for pool in fields.node_pools) > MAX_NODES:
        report.add("nodePools", f"has more than {MAX_NODES:,} nodes")
    return [] if report.problems else [_pool(pool) for pool in fields.node_pools]


def _check_pool(pool: _PoolFields, path: str, report: Report) -> None:
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


def _check_taint(taint: _TaintFields, path: str, report: Report) -> None:
    if not valid_label_key(taint.key):
        report.add(f"{path}.key", f"{shown(taint.key)} is not a qualified name such as example.com/dedicated")
    if taint.effect not in _EFFECTS:
        report.add(f"{path}.effect", f"{shown(taint.effect)} is none of: {', '.join(_EFFECTS)}")
    if label_problems({"value": taint.value}, ""):
        report.add(f"{path}.value", f"{shown(taint.value)} is not a label value")


def _pool(fields: _PoolFields) -> NodePool:
    amounts = _DEFAULTS | {name: str(amount) for name, amount in fields.capacity.items()}
    taints = [_taint(taint) for taint in fields.taints]
    return NodePool(fields.name, fields.count, amounts, dict(fields.labels), tuple(fields.zones), taints)


def _taint(fields: _TaintFields) -> dict[str, str]:
    return {"key": fields.key, **({"value": fields.value} if fields.value else {}), "effect": fields.effect}
