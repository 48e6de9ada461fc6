"""A row of the configuration's table: a file, and what it comes to here and in kube-scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pyscheduler.config.encode import encode
from pyscheduler.config.load import LoadedConfig
from pyscheduler.config.problems import Problem

DECODING = "what Go's decoder says of a text that does not fit is about Go's types"
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
"""What Kubernetes says of the part of a label's key, or of a resource's name, after the slash."""
_STEP = re.compile(r"[^.\[\]]+")
_INITIALIZING = re.compile(
    r"initializing profiles: creating profile for scheduler name \S+: "
    r"(?:initializing plugin \"\w+\": |score plugins: )?"
)


class Row(NamedTuple):
    """A configuration file.

    `says`: its problems here, in the file's order; none and it loads. `gives`: what is then at some places of `view`.
    `words`: why kube-scheduler says the same in other words; `verdict`: why it takes what is refused here, or refuses
    what is taken. Where neither is given, both must agree to the word.
    """

    id: str
    text: str
    says: tuple[str, ...] = ()
    gives: Mapping[str, Any] = MappingProxyType({})
    words: str = ""
    verdict: str = ""


def view(loaded: LoadedConfig) -> dict[str, Any]:
    """A loaded configuration as plain values: the fields of the file, and for each profile what it comes to.

    A profile's `plugins` are names by point, `weights` those at Score, `args` the args of each plugin.
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
    """The value at a path such as `profiles[0].args`; None if it leads nowhere."""
    for step in _STEP.findall(path):
        try:
            values = values[int(step) if isinstance(values, list) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return values


def agrees(kube: str, problems: Sequence[Problem]) -> bool:
    """Whether kube-scheduler's one line of error and the problems found here say the same."""
    text = _plain(kube)
    initializing = _INITIALIZING.match(text)
    if initializing:  # there it stops at the first plugin, and has no path to it
        said = text[initializing.end() :]
        return bool(problems) and not _left(said, [_unplaced(p) for p in problems])
    return bool(problems) and not _left(text, [str(p) for p in problems], all_said=True)


def _left(text: str, said: Sequence[str], *, all_said: bool = False) -> str:
    """What of a text is left without what was said of it; if all has to be in it, what is not counts as left."""
    for line in sorted(map(_plain, said), key=len, reverse=True):
        if line not in text and all_said:
            return line
        text = text.replace(line, "")
    return text.strip("[], ")


def _unplaced(problem: Problem) -> str:
    _, args, place = problem.path.partition(".args.")
    return f"{place}: {problem.message}" if args else problem.message.partition("; ")[0]


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()
