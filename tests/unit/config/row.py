"""Row of the configuration table: a file with its result here and in kube-scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pyscheduler.config.encode import encode
from pyscheduler.config.load import LoadedConfig
from pyscheduler.config.problems import Problem

DECODING = "error texts of Go's decoder depend on Go types"
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
"""Naming rule of Kubernetes for the part after the slash in a label key or a resource name."""
_STEP = re.compile(r"[^.\[\]]+")
_INITIALIZING = re.compile(
    r"initializing profiles: creating profile for scheduler name \S+: "
    r"(?:initializing plugin \"\w+\": |score plugins: )?"
)


class Row(NamedTuple):
    """A configuration file and the expected result.

    `errors`: expected problems in the order of the file; empty if it loads. `values`: expected values at paths of
    `view`. `wording`: reason why kube-scheduler's message differs. `difference`: reason why kube-scheduler accepts a
    rejected file or rejects an accepted one. Without these, both must agree literally.
    """

    id: str
    text: str
    errors: tuple[str, ...] = ()
    values: Mapping[str, Any] = MappingProxyType({})
    wording: str = ""
    difference: str = ""


def view(loaded: LoadedConfig) -> dict[str, Any]:
    """Return a loaded configuration as plain values: the fields of the file and the expanded profiles.

    A profile has `plugins` (names by point), `weights` (at Score) and `args` (by plugin).
    """
    fields = encode(loaded.configuration)
    fields["profiles"] = [
        {
            "schedulerName": spec.scheduler_name,
            "percentageOfNodesToScore": spec.percentage_of_nodes_to_score,
            "plugins": {point: [e.name for e in enabled] for point, enabled in spec.points.items()},
            "weights": {e.name: e.weight for e in spec.points["score"]},
            "args": {name: encode(args) for name, args in spec.args.items()},
        }
        for spec in loaded.profiles
    ]
    return fields


def at(values: Any, path: str) -> Any:
    """Return the value at a path such as `profiles[0].args`, or None."""
    for step in _STEP.findall(path):
        try:
            values = values[int(step) if isinstance(values, list) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return values


def agrees(kube: str, problems: Sequence[Problem]) -> bool:
    """Return True if kube-scheduler's error line and our problems have the same content."""
    text = _plain(kube)
    initializing = _INITIALIZING.match(text)
    if initializing:  # kube-scheduler stops at the first plugin and reports no path
        message = text[initializing.end() :]
        return bool(problems) and not _remainder(message, [_without_path(p) for p in problems])
    return bool(problems) and not _remainder(text, [str(p) for p in problems], require_all=True)


def _remainder(text: str, problems: Sequence[str], *, require_all: bool = False) -> str:
    """Return a text without the problems in it. With `require_all`, return the first problem that is missing in it."""
    for line in sorted(map(_plain, problems), key=len, reverse=True):
        if line not in text and require_all:
            return line
        text = text.replace(line, "")
    return text.strip("[], ")


def _without_path(problem: Problem) -> str:
    _, args, place = problem.path.partition(".args.")
    return f"{place}: {problem.message}" if args else problem.message.partition("; ")[0]


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()
