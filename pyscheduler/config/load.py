"""Entry points of configuration loading: a validated configuration, or all of its errors at once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from pyscheduler.config.binding_timeout import validate_binding_timeout
from pyscheduler.config.decode import decode
from pyscheduler.config.discover import Catalogue, installed
from pyscheduler.config.expand import ProfileSpec, expand
from pyscheduler.config.gates import DEFAULTS, FeatureGates
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError, Problem, Report, did_you_mean, shown
from pyscheduler.config.show import show
from pyscheduler.config.types import (
    DEFAULT_SCHEDULER_NAME,
    KUBE_API_VERSION,
    KUBE_KIND,
    PY_API_VERSION,
    PY_KIND,
    ExtenderConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    NodeOrder,
    PySchedulerConfiguration,
)
from pyscheduler.config.unsupported import warn_unsupported
from pyscheduler.config.validate import validate, validate_queue_sort
from pyscheduler.config.yaml_reader import Document, InvalidYaml, read
from pyscheduler.intree import NodeResourcesFit

__all__ = ["ConfigError", "LoadedConfig", "default", "from_value", "load", "loads", "show"]

T = TypeVar("T")
_VERSIONS = {KUBE_KIND: KUBE_API_VERSION, PY_KIND: PY_API_VERSION}


def load(
    path: str | os.PathLike[str], gates: FeatureGates = DEFAULTS, election: Mapping[str, Any] | None = None
) -> LoadedConfig:
    """Return the configuration in a file. ConfigError lists all problems of the file, the YAML and its contents.

    `election` overrides keys of `leaderElection`.
    """
    source = os.fspath(path)
    try:
        text = Path(source).read_text(encoding="utf-8-sig")
    except OSError as e:
        raise ConfigError([Problem("", f"cannot be read: {e.strerror or e}")], source) from None
    except ValueError as e:
        raise ConfigError([Problem("", f"is not a text file in UTF-8: {e}")], source) from None
    return loads(text, source, gates, election)


def loads(
    text: str, source: str = "", gates: FeatureGates = DEFAULTS, election: Mapping[str, Any] | None = None
) -> LoadedConfig:
    """Return the configuration in a YAML text; `source` names it in errors. Raises ConfigError like `load`."""
    try:
        documents = read(text)
    except InvalidYaml as e:
        raise ConfigError([e.problem], source) from None
    return _loaded([_with_election(d, election or {}) for d in documents], source, gates)


def from_value(value: Mapping[str, Any], gates: FeatureGates = DEFAULTS) -> LoadedConfig:
    """Return the configuration in a decoded KubeSchedulerConfiguration, such as a JSON document. Raises ConfigError."""
    return _loaded([Document(value)], "", gates)


def default(
    gates: FeatureGates = DEFAULTS, election: Mapping[str, Any] | None = None, more: Mapping[str, Any] | None = None
) -> LoadedConfig:
    """Return kube-scheduler's default profile, without leader election unless `election` configures it.

    `more` holds additional top-level fields.
    """
    fields = {"leaderElection": {"leaderElect": False, **(election or {})}, **(more or {})}
    return from_value({"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, **fields}, gates)


def _with_election(document: Document, election: Mapping[str, Any]) -> Document:
    """Return the document with `election` merged into leaderElection; an unreadable document is returned unchanged."""
    value = document.value
    if not election or not isinstance(value, Mapping) or value.get("kind") != KUBE_KIND:
        return document
    configured = value.get("leaderElection") or {}
    if isinstance(configured, Mapping):
        document.value = {**value, "leaderElection": {**configured, **election}}
    return document


def _loaded(documents: list[Document], source: str, gates: FeatureGates) -> LoadedConfig:
    problems = [p for d in documents for p in d.problems]
    warnings: list[str] = []
    by_kind = _by_kind(documents, problems)
    kube, ours = Report(_lines(by_kind, KUBE_KIND)), Report(_lines(by_kind, PY_KIND))
    configuration = _with_names(_body(KubeSchedulerConfiguration, KUBE_KIND, by_kind, kube))
    python = _body(PySchedulerConfiguration, PY_KIND, by_kind, ours)
    validate(configuration, kube)
    catalogue = _catalogue(python, gates, ours)
    specs = tuple(
        expand(profile, configuration.percentage_of_nodes_to_score, catalogue, kube, f"profiles[{i}]")
        for i, profile in enumerate(configuration.profiles)
    )
    specs = _ordered(specs, python.node_order, ours)
    validate_queue_sort(specs, kube)
    validate_binding_timeout(python, specs, ours)
    if not python.result_cache:
        ours.warn("resultCache: off: every attempt runs every plugin on every node, which is slow in a large cluster")
    warn_unsupported(configuration, kube)
    for report in (kube, ours):
        problems += [p for p in report.problems if p not in problems]
        warnings += report.warnings
    if problems:
        raise ConfigError(problems, source)
    specs = _ignoring(specs, configuration.extenders)
    imported = {name: reference for reference, name in catalogue.imported.items()}
    return LoadedConfig(configuration, python, specs, catalogue.registry, tuple(warnings), imported, gates)


def _by_kind(documents: list[Document], problems: list[Problem]) -> dict[str, Document]:
    """Return the documents by kind; unknown kinds and duplicates are added to `problems`."""
    by_kind: dict[str, Document] = {}
    for document in documents:
        report = Report(document.lines)
        kind = _kind(document, report)
        if kind in by_kind:
            report.add("kind", f"there are two documents of kind {kind}; keep one")
        elif kind:
            by_kind[kind] = document
        problems += report.problems
    if KUBE_KIND not in by_kind and not problems:
        what = "is empty" if not documents else f"holds no {KUBE_KIND}"
        head = f'start it with "apiVersion: {KUBE_API_VERSION}" and "kind: {KUBE_KIND}"'
        problems.append(Problem("", f"{what}; {head}"))
    return by_kind


def _kind(document: Document, report: Report) -> str:
    """Return the kind of a document, or "" with the reason in the report."""
    value = document.value
    if not isinstance(value, Mapping):
        report.add("", f"must be a {KUBE_KIND}, not {shown(value)}")
        return ""
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or kind not in _VERSIONS:
        problem = "is required" if kind is None else f"{shown(kind)} is not served{did_you_mean(str(kind), _VERSIONS)}"
        report.add("kind", f"{problem}; write {KUBE_KIND} (or {PY_KIND} in a document of its own)")
        return ""
    if version != _VERSIONS[kind]:
        problem = "is required" if version is None else f"{shown(version)} is not served"
        report.add("apiVersion", f"{problem}; write {_VERSIONS[kind]}")
        return ""
    return kind


def _lines(by_kind: Mapping[str, Document], kind: str) -> Mapping[str, int]:
    return by_kind[kind].lines if kind in by_kind else {}


def _body(cls: type[T], kind: str, by_kind: Mapping[str, Document], report: Report) -> T:
    """Return the decoded document of a kind; all defaults if there is none or it is unusable."""
    value = by_kind[kind].value if kind in by_kind else {}
    fields = {k: v for k, v in value.items() if k not in ("apiVersion", "kind")}
    return decode(cls, fields, "", report) or cls()


def _ordered(specs: tuple[ProfileSpec, ...], order: NodeOrder | None, report: Report) -> tuple[ProfileSpec, ...]:
    """Return the profiles with `nodeOrder` applied; None keeps the order of each profile."""
    if order is None:
        return specs
    if order == "KubeScheduler":
        return tuple(replace(s, percentage_of_nodes_to_score=s.percentage_of_nodes_to_score or 0) for s in specs)
    if any(s.percentage_of_nodes_to_score is not None for s in specs):
        report.warn("nodeOrder: percentageOfNodesToScore has no effect: EveryNode scores all of them")
    return tuple(replace(s, percentage_of_nodes_to_score=None) for s in specs)


def _ignoring(specs: tuple[ProfileSpec, ...], extenders: Iterable[ExtenderConfig]) -> tuple[ProfileSpec, ...]:
    """Return the profiles with NodeResourcesFit ignoring the resources that extenders manage (ignoredByScheduler)."""
    names = tuple(r.name for e in extenders for r in e.managed_resources if r.ignored_by_scheduler)
    return tuple(_with_ignored(spec, names) for spec in specs) if names else specs


def _with_ignored(spec: ProfileSpec, resources: tuple[str, ...]) -> ProfileSpec:
    fit = spec.args.get(NodeResourcesFit.name)
    if fit is None:
        return spec
    fit = dataclasses.replace(fit, ignored_resources=resources)
    return replace(spec, args={**spec.args, NodeResourcesFit.name: fit})


def _with_names(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return the configuration with default profile and scheduler name filled in."""
    profiles = configuration.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    return replace(configuration, profiles=profiles)


def _catalogue(python: PySchedulerConfiguration, gates: FeatureGates, report: Report) -> Catalogue:
    """Return the catalogue of installed plugins and of those given by import path."""
    catalogue = installed(report, gates)
    for i, wanted in enumerate(python.plugins):
        plugin = catalogue.import_plugin(wanted.reference, f"plugins[{i}].class", report)
        if plugin is not None and wanted.name not in ("", plugin.name):
            report.add(f"plugins[{i}].name", f'the class has the name "{plugin.name}", not "{wanted.name}"')
    return catalogue
