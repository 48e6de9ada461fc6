"""The result types of each extension point, and the check that a plugin's result is one of them.

A wrong result is an immediate failure of the plugin: accepted silently, `False` from Filter would admit a pod, and a
score of 0.7 would become 0. Arrays are checked once for all nodes, not node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pyscheduler.api.events import QueueingHint
from pyscheduler.api.normalize import Scores
from pyscheduler.api.outcome import ClearNomination, NodeNames, NodeToStatus, Nominate, Rejection, Skip, Wait
from pyscheduler.api.pod_group import EvictionUnit
from pyscheduler.api.pod_group_cycle import NominateGroup
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.return_values import FILTER_RETURNS, InvalidReturnValue
from pyscheduler.texts import text_of

_COLUMN: Final = "an array of int64"
_INT64: Final = np.dtype(np.int64)


class Expected(Struct, frozen=True):
    """Valid types of an extension point, and their names in error messages."""

    types: tuple[type, ...]
    text: str


_NOTHING = Expected((NoneType,), "None")
_REJECTION = Expected((NoneType, Rejection), FILTER_RETURNS)
EXPECTED: Mapping[str, Expected] = MappingProxyType(
    {
        "PreEnqueue": _REJECTION,
        "QueueingHint": Expected((QueueingHint,), "QueueingHint.QUEUE or QueueingHint.SKIP"),
        "PreFilter": Expected((NoneType, Rejection, Skip, NodeNames), "None, Rejection, NodeNames or SKIP"),
        "PreFilterExtensionAddPod": _NOTHING,
        "PreFilterExtensionRemovePod": _NOTHING,
        "PostFilter": Expected((Nominate, Rejection, ClearNomination), "Nominate, Rejection or ClearNomination"),
        "PlacementGenerate": Expected((NoneType, Rejection, list, tuple), "PlacementCandidates, Rejection or None"),
        "PlacementFeasible": _REJECTION,
        "PlacementScore": Expected((int,), "an integer"),
        "PodGroupPostFilter": Expected((NominateGroup, Rejection), "NominateGroup or Rejection"),
        "PreScore": Expected((NoneType, Skip), "None or SKIP"),
        "Reserve": _REJECTION,
        "Unreserve": _NOTHING,
        "Permit": Expected((NoneType, Rejection, Wait), "None, Rejection or Wait"),
        "HandleUnschedulable": _REJECTION,
        "PreBindPreFlight": Expected((NoneType, Skip), "None or SKIP"),
        "PreBind": _REJECTION,
        "Bind": Expected((NoneType, Rejection, Skip), "None, Rejection or SKIP"),
        "PostBind": _NOTHING,
    }
)
"""By the extension point's name in metrics. Filter and Score return arrays and have their own checks."""


def _is_number(value: object) -> bool:
    """Return True for a number of at least 0 that fits a float: a negative time or NaN would be due at once."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return float(value) >= 0
    except OverflowError:
        return False


def _is_amount(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_sequence_of(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, Sequence) and not isinstance(value, str) and all(map(kind, value))


def _is_mapping_to(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, Mapping) and all(isinstance(k, str) and kind(v) for k, v in value.items())


class _Valid(Struct, frozen=True):
    """Check of a result, and the name of valid ones in error messages."""

    accepts: Callable[[object], bool]
    text: str


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


_STR: Final = _Valid(_is(str), "a str")
_BOOL: Final = _Valid(_is(bool, np.bool_), "True or False")
_UNITS: Final = _is_sequence_of(_is(EvictionUnit))
_CLAIMS: Final = _Valid(
    _is_mapping_to(_is_mapping_to(_is_amount)), "a mapping of names to mappings of resources to ints >= 0"
)
_NUMBERS: Final = _Valid(_is_sequence_of(_is_number), "a sequence of numbers >= 0")
QUOTA_RESULTS: Final[Mapping[str, _Valid]] = MappingProxyType(
    {
        **dict.fromkeys(("queue_of", "queue_of_group", "next_queue"), _STR),
        **dict.fromkeys(("unavailable", "exceeded", "exceeded_limit"), _STR),
        **dict.fromkeys(("changes_queues", "has_strict_order", "take_ended_claims"), _BOOL),
        **dict.fromkeys(("is_within_share", "is_guaranteed", "may_preempt", "may_reclaim", "may_reclaim_from"), _BOOL),
        **dict.fromkeys(("claims_of", "changed_claims"), _CLAIMS),
        "accounts_of": _Valid(_is_sequence_of(_is(str)), "a sequence of strs"),
        "group_share": _Valid(_is_number, "a number >= 0"),
        **dict.fromkeys(("min_run_seconds", "seconds_of_turns"), _NUMBERS),
        "seconds_until_turn": _Valid(lambda result: result is None or _is_number(result), "a number >= 0 or None"),
        "over_quota": _Valid(_is_mapping_to(_is_number), "a mapping of queues to numbers >= 0"),
        "surplus": _Valid(_UNITS, "a sequence of EvictionUnits"),
        "reclaim": _Valid(lambda result: isinstance(result, str) or _UNITS(result), "EvictionUnits or a str"),
    }
)
"""By the method of QuotaPlugin. The others return nothing that is read."""


def check_quota_result(name: str, method: Callable[..., Any], result: object) -> None:
    """Raise InvalidReturnValue if the result is not valid for this method of a Quota plugin."""
    valid = QUOTA_RESULTS.get(name)
    if valid is not None and not valid.accepts(result):
        raise InvalidReturnValue(method, result, valid.text)


def check_units(method: Callable[..., Any], result: Sequence[EvictionUnit], listed: Iterable[EvictionUnit]) -> None:
    """Raise InvalidReturnValue unless the units are some of those listed, each once.

    Their fields then need no checks: all of their pods exist, and none is protected from eviction.
    """
    known, seen = {id(unit) for unit in listed}, set[int]()
    for unit in result:
        if id(unit) not in known or id(unit) in seen:
            shown = "a repeated EvictionUnit" if id(unit) in seen else "an EvictionUnit that is not in `units`"
            raise InvalidReturnValue(method, result, "some of those in `units`, each once", shown=shown)
        seen.add(id(unit))


def check_result(point: str, method: Callable[..., Any], result: object) -> None:
    """Raise InvalidReturnValue if the result has no valid type for the extension point."""
    expected = EXPECTED.get(point)
    if expected is not None and not isinstance(result, expected.types):
        raise InvalidReturnValue(method, result, expected.text)


def check_texts(method: Callable[..., Any], key: object, count: int, expected: str) -> None:
    """Raise InvalidReturnValue unless the key is a tuple of this many strs: another one names no object."""
    if not (isinstance(key, tuple) and len(key) == count and all(isinstance(part, str) for part in key)):
        raise InvalidReturnValue(method, key, expected, shown=text_of(key, repr) if isinstance(key, tuple) else "")


def check_statuses(method: Callable[..., Any], verdicts: NodeToStatus, nodes: int) -> None:
    """Raise InvalidReturnValue unless there is one valid status code per node."""
    if not isinstance(verdicts, NodeToStatus):
        raise InvalidReturnValue(method, verdicts, "NodeToStatus")
    if not verdicts.has_codes and not verdicts.rejections and len(verdicts) == nodes:
        return  # all nodes fit
    codes, rejections = verdicts.codes, verdicts.rejections
    if not isinstance(codes, np.ndarray):
        raise InvalidReturnValue(method, verdicts, "codes of int32", shown=f"codes that are a {type(codes).__name__}")
    if codes.shape != (nodes,):
        raise InvalidReturnValue(method, verdicts, f"one for each of {nodes} nodes", shown=f"{len(codes)} verdicts")
    for rejection in rejections:
        if not isinstance(rejection, Rejection):
            raise InvalidReturnValue(
                method, verdicts, "Rejections", shown=f"verdicts because of {type(rejection).__name__}"
            )
    if codes.dtype.kind not in "iu":
        raise InvalidReturnValue(method, verdicts, "codes of int32", shown=f"codes of {codes.dtype}")
    # argmin and argmax are several times faster than min and max.
    if rejections and nodes and not (codes[codes.argmin()] >= 0 and codes[codes.argmax()] <= len(rejections)):
        worst = codes.max() if codes.max() > len(rejections) else codes.min()
        raise InvalidReturnValue(
            method, verdicts, f"0 to {len(rejections)}, the number of rejections", shown=f"code {worst}"
        )


def checked_column(method: Callable[..., Any], scores: Scores, nodes: int) -> Scores:
    """Return the scores as a contiguous array of int64. InvalidReturnValue unless they are integers, one per node."""
    if type(scores) is np.ndarray and scores.dtype is _INT64 and scores.shape == (nodes,) and scores.flags.c_contiguous:
        return scores
    if not isinstance(scores, np.ndarray):
        raise InvalidReturnValue(method, scores, _COLUMN)
    if scores.dtype.kind not in "iu":
        raise InvalidReturnValue(method, scores, _COLUMN, shown=f"an array of {scores.dtype}")
    if scores.shape != (nodes,):
        raise InvalidReturnValue(method, scores, f"one for each of {nodes} nodes", shown=f"{scores.size} scores")
    # Compiled kernels read int64 cells that follow each other.
    if scores.dtype.kind == "u" and nodes and scores.max() > MAX_INT64:
        raise InvalidReturnValue(method, scores, _COLUMN, shown=f"a score of {scores.max()}")
    return np.ascontiguousarray(scores, _INT64)
