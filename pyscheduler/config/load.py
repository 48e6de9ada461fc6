"""The one door of this package: a file goes in, a configuration ready to run comes out, or all its errors at once."""

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
    Extender,
    KubeSchedulerConfiguration,
    NodeOrder,
    Profile,
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
    """The configuration in a file. ConfigError with all that is wrong, be it the file, the YAML or what it says.

    `election` goes before what it says under `leaderElection`, key by key.
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
    """The configuration in a YAML text; `source` is what errors call it."""
    try:
        documents = read(text)
    except InvalidYaml as e:
        raise ConfigError([e.problem], source) from None
    return _loaded([_with_election(d, election or {}) for d in documents], source, gates)


def from_value(value: Mapping[str, Any], gates: FeatureGates = DEFAULTS) -> LoadedConfig:
    """The configuration in a decoded KubeSchedulerConfiguration, such as a JSON document holds."""
    return _loaded([Document(value)], "", gates)


def default(
    gates: FeatureGates = DEFAULTS, election: Mapping[str, Any] | None = None, more: Mapping[str, Any] | None = None
) -> LoadedConfig:
    """What runs without a file: kube-scheduler's default profile, without leader election unless `election` says so.

    `more` is said beside it, in the words of the file.
    """
    said = {"leaderElection": {"leaderElect": False, **(election or {})}, **(more or {})}
    return from_value({"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, **said}, gates)


def _with_election(document: Document, election: Mapping[str, Any]) -> Document:
    """The document with `election` in place of what it says about that; one that cannot be read stays as it is."""
    value = document.value
    if not election or not isinstance(value, Mapping) or value.get("kind") != KUBE_KIND:
        return document
    said = value.get("leaderElection") or {}
    if isinstance(said, Mapping):
        document.value = {**value, "leaderElection": {**said, **election}}
    return document


def _loaded(documents: list[Document], source: str, gates: FeatureGates) -> LoadedConfig:
    problems = [p for d in documents for p in d.problems]
    warnings = [*gates.warnings]
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
    """The documents by kind; anything that is none of ours, or there twice, becomes a problem."""
    found: dict[str, Document] = {}
    for document in documents:
        report = Report(document.lines)
        kind = _kind(document, report)
        if kind in found:
            report.add("kind", f"there are two documents of kind {kind}; keep one")
        elif kind:
            found[kind] = document
        problems += report.problems
    if KUBE_KIND not in found and not problems:
        what = "is empty" if not documents else f"holds no {KUBE_KIND}"
        head = f'start it with "apiVersion: {KUBE_API_VERSION}" and "kind: {KUBE_KIND}"'
        problems.append(Problem("", f"{what}; {head}"))
    return found


def _kind(document: Document, report: Report) -> str:
    """The kind of a document that can be decoded, or "" with the reason in the report."""
    value = document.value
    if not isinstance(value, Mapping):
        report.add("", f"must be a {KUBE_KIND}, not {shown(value)}")
        return ""
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or kind not in _VERSIONS:
        said = "is required" if kind is None else f"{shown(kind)} is not served{did_you_mean(str(kind), _VERSIONS)}"
        report.add("kind", f"{said}; write {KUBE_KIND} (or {PY_KIND} in a document of its own)")
        return ""
    if version != _VERSIONS[kind]:
        said = "is required" if version is None else f"{shown(version)} is not served"
        report.add("apiVersion", f"{said}; write {_VERSIONS[kind]}")
        return ""
    return kind


def _lines(by_kind: Mapping[str, Document], kind: str) -> Mapping[str, int]:
    return by_kind[kind].lines if kind in by_kind else {}


def _body(cls: type[T], kind: str, by_kind: Mapping[str, Document], report: Report) -> T:
    """The document of a kind, decoded; all defaults where there is none or nothing of it can be used."""
    value = by_kind[kind].value if kind in by_kind else {}
    said = {k: v for k, v in value.items() if k not in ("apiVersion", "kind")}
    return decode(cls, said, "", report) or cls()


def _ordered(specs: tuple[ProfileSpec, ...], order: NodeOrder | None, report: Report) -> tuple[ProfileSpec, ...]:
    """The profiles with the order of nodes that the second document asks for; None: the one that each has."""
    if order is None:
        return specs
    if order == "KubeScheduler":
        return tuple(replace(s, percentage_of_nodes_to_score=s.percentage_of_nodes_to_score or 0) for s in specs)
    if any(s.percentage_of_nodes_to_score is not None for s in specs):
        report.warn("nodeOrder: percentageOfNodesToScore has no effect: EveryNode looks at all of them")
    return tuple(replace(s, percentage_of_nodes_to_score=None) for s in specs)


def _ignoring(specs: tuple[ProfileSpec, ...], extenders: Iterable[Extender]) -> tuple[ProfileSpec, ...]:
    """The profiles whose NodeResourcesFit leaves alone what extenders look after, instead of what it was told to."""
    names = tuple(r.name for e in extenders for r in e.managed_resources if r.ignored_by_scheduler)
    return tuple(_with_ignored(spec, names) for spec in specs) if names else specs


def _with_ignored(spec: ProfileSpec, resources: tuple[str, ...]) -> ProfileSpec:
    fit = spec.args.get(NodeResourcesFit.name)
    if fit is None:
        return spec
    fit = dataclasses.replace(fit, ignored_resources=resources)
    return replace(spec, args={**spec.args, NodeResourcesFit.name: fit})


def _with_names(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The one profile needs no name, and no profiles are the default one."""
    profiles = configuration.profiles or (Profile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    return replace(configuration, profiles=profiles)


def _catalogue(python: PySchedulerConfiguration, gates: FeatureGates, report: Report) -> Catalogue:
    """Every plugin that is installed, and those that the second document names by import path."""
    catalogue = installed(report, gates)
    for i, wanted in enumerate(python.plugins):
        plugin = catalogue.import_plugin(wanted.reference, f"plugins[{i}].class", report)
        if plugin is not None and wanted.name not in ("", plugin.name):
            report.add(f"plugins[{i}].name", f'the class calls itself "{plugin.name}", not "{wanted.name}"')
    return catalogue
