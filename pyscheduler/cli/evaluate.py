"""`pyscheduler evaluate`: results of each plugin for each node, for clusters given as JSON; needs no API server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from pyscheduler.api.objects import PodObject
from pyscheduler.cli import options
from pyscheduler.cli.problems import unreadable
from pyscheduler.config.build import build_profiles
from pyscheduler.config.gates import DEFAULTS, FeatureGates
from pyscheduler.config.load import default, from_value, load
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError
from pyscheduler.core.context import Context, Settings
from pyscheduler.core.machine import Machine
from pyscheduler.core.scheduling.report import report
from pyscheduler.core.snapshot import UnreadableObject, load_snapshot
from pyscheduler.texts import text_of

Json = dict[str, Any]
_KEYS = ("id", "objects", "pods", "config")
_MAX_CONFIGS = 64

_ONE_PER_LINE = "the input must be one JSON document per line, as `jq -c` writes them"

_HELP = """Explain decisions: what each plugin returns for each node, as JSON, without an API server.

Each line of FILE (or of standard input) is a document. For each of its pods without a node, one line of JSON is
printed; every pod is evaluated alone, and nothing is changed. The exit code is 1 if a result is an error.

\b
  {"id": any, "objects": [objects of any kind], "pods": ["ns/name", ...], "config": KubeSchedulerConfiguration}

`id` is returned with each result. Defaults: `pods` is all pods without a node, `config` is that of --config, or the
default profile for the scheduler names `default-scheduler` and `pyscheduler`.

\b
Try it; docs/evaluate.md describes the result:
  echo '{"id": 1, "objects": [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
     "status": {"allocatable": {"cpu": "2", "pods": "9"}}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
     "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}}
  ]}' | tr -d '\\n' | pyscheduler evaluate

\b
Evaluate the pending pods of a running cluster:
  kubectl get nodes,pods -A -o json | jq -c '{id: "now", objects: .items}' | pyscheduler evaluate
"""


@click.command(help=_HELP)
@click.argument("file", metavar="[FILE|-]", default="-")
@options.config
@options.feature_gates
def evaluate(file: str, config: Path | None, feature_gates: tuple[str, ...]) -> None:
    on = options.gates(feature_gates)
    evaluator = Evaluator(load(config, on) if config else None, on)
    sys.exit(0 if _evaluate_all(evaluator, _lines(file)) else 1)


def _evaluate_all(evaluator: Evaluator, lines: Iterable[bytes]) -> bool:
    """Print the results of all lines; return True if none of them is an error.

    If the first line is not JSON, neither are those after it, such as the lines of one indented document: they are
    not read.
    """
    is_complete, is_empty = True, True
    for number, line in enumerate(filter(bytes.strip, lines)):
        for result in evaluator.line(line):
            sys.stdout.write(json.dumps(result) + "\n")
            is_complete, is_empty = is_complete and "error" not in result, False
        sys.stdout.flush()  # so that another program can alternate between requests and results
        if number == 0 and not is_complete and not _is_json(line):
            break
    if is_empty:
        print("pyscheduler: nothing to evaluate: no document has a pod without a node", file=sys.stderr)
    return is_complete


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _lines(file: str) -> Iterator[bytes]:
    if file == "-":
        if sys.stdin.isatty():
            print("pyscheduler: reading documents from the terminal, end with Ctrl-D; see --help", file=sys.stderr)
        yield from sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield from lines
    except OSError as error:
        raise unreadable(file, error) from None


class Evaluator:
    """Evaluates documents; caches parsed configurations, so that many documents a second can be evaluated."""

    def __init__(self, config: LoadedConfig | None = None, gates: FeatureGates = DEFAULTS) -> None:
        """`config` is used for documents without one, `gates` with all others.

        Without `config` it is the default profile for both scheduler names.
        """
        profiles = [{"schedulerName": name} for name in options.SCHEDULER_NAMES]
        self._config = config or default(gates, more={"profiles": profiles})
        _warn_of_extenders(self._config)
        self._gates = gates
        self._configs: dict[str, LoadedConfig] = {}

    def line(self, line: str | bytes) -> Iterator[Json]:
        """Yield the results of one line of JSON, none for an empty line; an invalid line yields an `error`."""
        if not line.strip():
            return
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as problem:
            yield {"id": None, "error": f"the line is not valid JSON: {problem}; {_ONE_PER_LINE}"}
            return
        yield from self.results(document)

    def results(self, document: Any) -> Iterator[Json]:
        """Yield one result for each pod of a document, or one `error` if the document is invalid."""
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
        """Return a machine with an empty cluster for a KubeSchedulerConfiguration (default: the evaluator's own).

        ConfigError if it is invalid.
        """
        loaded = self._config if config is None else self._loaded(config)
        # Every pod is evaluated alone, so no result could be used again.
        loaded = replace(loaded, python=replace(loaded.python, result_cache=False))
        return Machine(partial(build_profiles, loaded), None, Settings(loaded.python.seed))

    def _loaded(self, config: Any) -> LoadedConfig:
        key = json.dumps(config, sort_keys=True)
        cached = self._configs.get(key)
        if cached is None:
            if len(self._configs) >= _MAX_CONFIGS:
                self._configs.clear()
            cached = self._configs[key] = from_value(config, self._gates)
            _warn_of_extenders(cached)
        return cached

    @staticmethod
    def _check(document: Any) -> None:
        if not isinstance(document, Mapping):
            raise _BadDocument(f"a document must be a mapping with the keys {', '.join(_KEYS)}")
        for key in document:
            if key not in _KEYS:
                raise _BadDocument(f'unknown key "{key}"; a document has the keys {", ".join(_KEYS)}')
        pods = document.get("pods")
        if not isinstance(document.get("objects"), list | None):
            raise _BadDocument("objects: must be a list")
        if pods is not None and not (isinstance(pods, list) and all(isinstance(pod, str) for pod in pods)):
            raise _BadDocument('pods: must be a list of "namespace/name"')


def _warn_of_extenders(config: LoadedConfig) -> None:
    """Warn that results do not include extenders, since they depend on the document alone."""
    if config.configuration.extenders:
        print("pyscheduler: extenders: ignored, because evaluate calls no other program", file=sys.stderr)


def _report(context: Context, name: str, source: PodObject) -> Json:
    try:
        pod = context.pods.get(context.handle.pods.uid_of_key(name) or "") or context.shapes.pod(source)
        result = report(context, pod)
    except Exception as error:  # a bug; as in a scheduling attempt, it affects only this pod
        return {"error": f"the attempt failed: {text_of(error, repr)}"}
    if pod.scheduler_name not in context.profiles:
        names = ", ".join(f'"{profile}"' for profile in context.profiles)
        result["error"] += f"; the profiles of the configuration are {names}: set others with --config"
    return result


class _BadDocument(Exception):
    """Invalid document."""
