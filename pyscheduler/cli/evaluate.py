"""`pyscheduler evaluate`: what each plugin says of each node, for clusters given as JSON; no API server needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pyscheduler.api.objects import PodObject
from pyscheduler.cli import options
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.config.build import build_profiles
from pyscheduler.config.gates import DEFAULTS, FeatureGates
from pyscheduler.config.load import default, from_value, load
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError
from pyscheduler.core.context import Context, Settings
from pyscheduler.core.decide.report import report
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.machine import Machine
from pyscheduler.core.snapshot import UnreadableObject, load_snapshot

Json = dict[str, Any]
_KEYS = ("id", "objects", "pods", "config")
_MOST_CONFIGS = 64

_HELP = """Say what each plugin says of each node: JSON lines in, JSON lines out.

Each line of FILE (or of standard input) is a document; each pod in it that has no node gives one line, evaluated by
itself. No API server is asked and nothing is changed.

\b
  {"id": any, "objects": [objects of any kind], "pods": ["ns/name", ...], "config": KubeSchedulerConfiguration}

`id` comes back with every answer. `pods` left out means all pods without a node, `config` the one of --config.

\b
Try it, and see docs/evaluate.md for every key of the answer:
  echo '{"id": 1, "objects": [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
     "status": {"allocatable": {"cpu": "2", "pods": "9"}}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
     "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}}
  ]}' | tr -d '\\n' | pyscheduler evaluate

A cluster as it is: kubectl get nodes,pods -A -o json | jq -c '{id: "now", objects: .items}' | pyscheduler evaluate
"""


@click.command(help=_HELP)
@click.argument("file", metavar="[FILE|-]", default="-")
@options.config
@options.feature_gates
def evaluate(file: str, config: Path | None, feature_gates: tuple[str, ...]) -> None:
    on = options.gates(feature_gates)
    evaluator = Evaluator(load(config, on) if config else None, on)
    for line in _lines(file):
        for answer in evaluator.line(line):
            sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()  # so that another program can ask and listen by turns


def _lines(file: str) -> Iterator[bytes]:
    if file == "-":
        if sys.stdin.isatty():
            print("pyscheduler: reading documents from the keyboard, Ctrl-D ends; see --help", file=sys.stderr)
        yield from sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield from lines
    except OSError as error:
        raise CommandProblem(f"{file}: cannot be read: {error.strerror or error}") from None


class Evaluator:
    """Answers documents. Configurations are read once each, so many documents a second can be answered."""

    def __init__(self, config: LoadedConfig | None = None, gates: FeatureGates = DEFAULTS) -> None:
        """`config` is for documents that bring none, the default profile without one; `gates` are for all others."""
        self._config = config or default(gates)
        _warn_of_extenders(self._config)
        self._gates = gates
        self._configs: dict[str, LoadedConfig] = {}

    def line(self, line: str | bytes) -> Iterator[Json]:
        """The answers to one line of JSON, none for an empty one; what is wrong with it becomes an `error`."""
        if not line.strip():
            return
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as problem:
            yield {"id": None, "error": f"the line is no JSON: {problem}"}
            return
        yield from self.answers(document)

    def answers(self, document: Any) -> Iterator[Json]:
        """One answer for each pod of a document, or one that says what is wrong with the document."""
        id_ = document.get("id") if isinstance(document, Mapping) else None
        try:
            self._check(document)
            machine = self.machine(document.get("config"))
            objects = load_snapshot(machine, document.get("objects") or [])
        except _BadDocument as problem:
            yield {"id": id_, "error": str(problem)}
            return
        except ConfigError as problem:
            yield {"id": id_, "error": "config: " + "; ".join(str(problem).splitlines())}
            return
        except UnreadableObject as problem:
            yield {"id": id_, "error": str(problem)}
            return
        names = document.get("pods")
        if names is None:
            names = [name for name, pod in objects.items() if not pod.spec.node_name]
        context = machine.context
        for name in names:
            if name in objects:
                yield {"id": id_, "pod": name, **_report(context, name, objects[name])}
            else:
                yield {"id": id_, "pod": name, "error": "there is no such pod among the objects"}

    def machine(self, config: Any = None) -> Machine:
        """A machine with an empty cluster for a KubeSchedulerConfiguration, None being the evaluator's own.

        ConfigError if it cannot be used.
        """
        loaded = self._config if config is None else self._loaded(config)
        handle = CoreHandle()
        return Machine(build_profiles(loaded, handle), handle, None, Settings(loaded.python.seed))

    def _loaded(self, config: Any) -> LoadedConfig:
        key = json.dumps(config, sort_keys=True)
        known = self._configs.get(key)
        if known is None:
            if len(self._configs) >= _MOST_CONFIGS:
                self._configs.clear()
            known = self._configs[key] = from_value(config, self._gates)
            _warn_of_extenders(known)
        return known

    @staticmethod
    def _check(document: Any) -> None:
        if not isinstance(document, Mapping):
            raise _BadDocument(f"a document is a mapping with the keys {', '.join(_KEYS)}")
        for key in document:
            if key not in _KEYS:
                raise _BadDocument(f'unknown key "{key}"; a document has the keys {", ".join(_KEYS)}')
        pods = document.get("pods")
        if not isinstance(document.get("objects"), list | None):
            raise _BadDocument("objects: must be a list")
        if pods is not None and not (isinstance(pods, list) and all(isinstance(pod, str) for pod in pods)):
            raise _BadDocument('pods: must be a list of "namespace/name"')


def _warn_of_extenders(config: LoadedConfig) -> None:
    """What extenders would say is no part of the answers, which come from the document alone."""
    if config.configuration.extenders:
        print("pyscheduler: extenders: they are left out: evaluate asks no other program", file=sys.stderr)


def _report(context: Context, name: str, source: PodObject) -> Json:
    try:
        pod = context.pods.get(context.uid_of.get(name, "")) or context.shapes.pod(source)
        return report(context, pod)
    except Exception as error:  # a bug of ours; as in an attempt, it costs its pod only
        return {"error": f"the attempt failed: {error!r}"}


class _BadDocument(Exception):
    """A document that is none."""
