"""Comparison of two results for one pod, with readable differences.

Parts without an order are compared as sets: reasons (both sides sort them), node lists, ties, the errors of dry runs.
Where kube-scheduler chooses randomly, our choice must be among its options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.conformance.oracle import panic

Answer = Mapping[str, Any]

_IDLE = "VolumeBinding"
"""Score plugin that rates every node 0 for pods without unbound claims; here it is skipped for them."""
_DRY_RUN_ERRORS = re.compile(r"(?<=preemption: \[)(.*)(?=\])", re.DOTALL)
"""Errors of the dry runs of preemption on several nodes, which kube-scheduler joins as they end."""
_NEXT_ERROR = re.compile(r", (?=running \")")
_NODE_FIELDS = ("feasible", "plugin", "code", "reasons")


class Difference(NamedTuple):
    """One disagreement. `kind` is the part of the result, and the plugin if the part belongs to one."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


Found = Iterator[Difference]


def compare(theirs: Sequence[Answer], ours: Sequence[Answer]) -> list[Difference]:
    """Return the differences between all results of one document, causes before consequences.

    A pod for which kube-scheduler panicked is not compared: it has no result there.
    """
    if any(panic(answer) for answer in theirs):
        pairs = [pair for pair in zip(theirs, ours, strict=False) if not panic(pair[0])]
        return [difference for pair in pairs for difference in differences(*pair)]
    if any("attempts" in answer for answer in theirs) and any("attempts" in answer for answer in ours):
        return list(_attempts(theirs[0]["attempts"], ours[0]["attempts"]))[
            :1
        ]  # all later differences follow from the first
    if any("pod" not in answer for answer in (*theirs, *ours)) or not theirs:  # one side rejected the whole document
        return list(_errors("document", theirs[0] if theirs else {}, ours[0] if ours else {}))
    if len(theirs) != len(ours):
        return [Difference("answers", f"theirs are {len(theirs)}, ours {len(ours)}")]
    return [difference for pair in zip(theirs, ours, strict=True) for difference in differences(*pair)]


def differences(theirs: Answer, ours: Answer) -> Found:
    """Yield the differences between two results for one pod; `theirs` is kube-scheduler's."""
    yield from _plain("pod", theirs, ours, ("id", "pod"))
    if "error" in theirs or "error" in ours:
        yield from _errors("error", theirs, ours)
        return
    yield from _verdict("preenqueue", theirs, ours, ("status", "plugin", "reasons"))
    yield from _verdict("prefilter", theirs, ours, ("status", "plugin", "reasons", "nodeNames"))
    yield from _by_name("nodes", theirs, ours, _node)
    yield from _by_name("weights", theirs, ours, _value)
    yield from _by_name("scores", _without_idle_scores(theirs, ours), ours, _scores)
    yield from _by_name("total", theirs, ours, _value)
    yield from _plain("choice", theirs, ours, ("choice",))
    if "bindings" in theirs:  # not in results that were recorded before the oracle returned them
        yield from _by_name("bindings", theirs, ours, _binding)
    yield from _plain("message", theirs, ours, ("filter_message",))
    yield from _preemption(theirs.get("preemption"), ours.get("preemption"))
    chosen = (ours.get("preemption") or {}).get("nominatedNode") or ""
    expected = _with_sorted_errors(_nominating(theirs, chosen) or "")
    yield from _value(
        "message", "fit_error_message", expected, _with_sorted_errors(ours.get("fit_error_message") or "")
    )


def _without_idle_scores(theirs: Answer, ours: Answer) -> Answer:
    """Return kube-scheduler's result without VolumeBinding's scores if all are 0 and the plugin skips the pod here."""
    scores = theirs.get("scores") or {}
    idle = _IDLE in scores and _IDLE not in (ours.get("scores") or {}) and not any(scores[_IDLE].values())
    return {**theirs, "scores": {name: scores[name] for name in scores if name != _IDLE}} if idle else theirs


def _nominating(theirs: Answer, node: str) -> str | None:
    """Return kube-scheduler's message as it would be if it had nominated this node, which is as good as its own."""
    message: str | None = theirs.get("fit_error_message")
    preemption = theirs.get("preemption") or {}
    return _as_if_nominating(message, preemption, node) if message else message


def _with_sorted_errors(message: str) -> str:
    """Return the message with the errors of dry runs in alphabetical order."""
    return _DRY_RUN_ERRORS.sub(lambda found: ", ".join(sorted(_NEXT_ERROR.split(found[0]))), message)


def _as_if_nominating(message: str, preemption: Answer, node: str) -> str:
    own = _placement(preemption, preemption.get("nominatedNode"))
    return message.replace(own, _placement(preemption, node)) if own else message


def _placement(preemption: Answer, node: str | None) -> str:
    """Return the part of the messages that depends on the nominated node; "" without one."""
    candidate = (preemption.get("candidates") or {}).get(node or "")
    return f"pod on node {node}, preempting {len(candidate['victims'])} victims" if candidate else ""


def merge_attempts(theirs: Sequence[Answer], again: Sequence[Answer], ours: Sequence[Answer]) -> list[Answer]:
    """Return kube-scheduler's result for a sequence, with the attempts of its repetition `again` that ours agree with.

    Attempts that ours agree with already stay, and all if one of the three has no attempts.
    """
    if not all("attempts" in answers[0] for answers in (theirs, again, ours)):
        return [*theirs]
    before, repeated, our = (answers[0]["attempts"] for answers in (theirs, again, ours))
    merged = [
        new if any(_attempt(0, old, same)) and not any(_attempt(0, new, same)) else old
        for old, new, same in zip(before, repeated, our, strict=False)
    ]
    return [{**theirs[0], "attempts": [*merged, *before[len(merged) :]]}]


def merge_pods(theirs: Sequence[Answer], again: Sequence[Answer], ours: Sequence[Answer]) -> list[Answer]:
    """Return kube-scheduler's results, each replaced by that of the repetition `again` if only that agrees with ours.

    They are unchanged if the three have different numbers of results.
    """
    if not len(theirs) == len(again) == len(ours):
        return [*theirs]
    return [
        new if not panic(new) and compare([old], [our]) and not compare([new], [our]) else old
        for old, new, our in zip(theirs, again, ours, strict=True)
    ]


def _attempts(theirs: Sequence[Answer], ours: Sequence[Answer]) -> Found:
    """Compare the attempts of a sequence one by one: nodes, nominations, victims, messages, devices of claims."""
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False)):
        if _both_errors(their, our):
            return
        yield from _attempt(number, their, our)
    yield from _value("sequence", "number of attempts", len(theirs), len(ours))


def _attempt(number: int, their: Answer, our: Answer) -> Found:
    where = f"attempt {number} {their.get('pod')}"
    fields = ("pod", "node", "nominatedNode", "victims", "message", "devices")
    for field in fields if their.get("devices") is not None else fields[:-1]:  # absent in older records
        left, right = (_without_order(field, attempt) for attempt in (their, our))
        if left != right:
            yield Difference(f"sequence {field}", f"{where}: theirs {left!r}, ours {right!r}")


def _without_order(field: str, attempt: Answer) -> object:
    return _with_sorted_errors(attempt.get(field) or "") if field == "message" else attempt.get(field)


def _both_errors(their: Answer, our: Answer) -> bool:
    """Return True if both attempts failed with a plugin's error: the start of the next search is undefined then."""
    return all(str(attempt.get("message")).startswith("running ") for attempt in (their, our))


def _errors(kind: str, theirs: Answer, ours: Answer) -> Found:
    """Compare only that both fail; error texts may differ."""
    if ("error" in theirs) != ("error" in ours):
        yield Difference(kind, f"theirs {theirs.get('error', 'none')!r}, ours {ours.get('error', 'none')!r}")


def _plain(kind: str, theirs: Answer, ours: Answer, fields: Iterable[str]) -> Found:
    for field in fields:
        yield from _value(kind, field, theirs.get(field), ours.get(field))


def _value(kind: str, where: str, theirs: Any, ours: Any) -> Found:
    if _normalized(theirs) != _normalized(ours):
        yield Difference(kind, f"{where}: theirs {theirs!r}, ours {ours!r}")


def _normalized(value: Any) -> Any:
    """Return a copy with lists sorted; an empty list, an empty string and null stay distinct."""
    return sorted(value) if isinstance(value, list) else value


def _verdict(name: str, theirs: Answer, ours: Answer, fields: Iterable[str]) -> Found:
    left, right = theirs.get(name), ours.get(name)
    if left is not None and right is not None:
        yield from _plain(f"{name} {left.get('plugin') or right.get('plugin') or ''}".strip(), left, right, fields)
    elif left or right:
        yield Difference(
            f"{name} {(left or right or {}).get('plugin', '')}".strip(), f"theirs {left!r}, ours {right!r}"
        )


def _by_name(part: str, theirs: Answer, ours: Answer, each: Callable[[str, str, Any, Any], Found]) -> Found:
    left, right = theirs.get(part) or {}, ours.get(part) or {}
    for name in sorted({*left, *right}):
        if name in left and name in right:
            yield from each(part, name, left[name], right[name])
        else:
            kind = f"{part} {name}" if part == "scores" else part
            yield Difference(kind, f"{name}: theirs {left.get(name)!r}, ours {right.get(name)!r}")


def _node(part: str, name: str, theirs: Answer, ours: Answer) -> Found:
    if theirs["feasible"] and ours["feasible"]:
        return
    if any(_normalized(theirs.get(field)) != _normalized(ours.get(field)) for field in _NODE_FIELDS):
        plugin_name = theirs.get("plugin") or ours.get("plugin") or ""
        yield Difference(f"{part} {plugin_name}".strip(), f"{name}: theirs {_describe(theirs)}, ours {_describe(ours)}")


def _describe(answer: Answer) -> str:
    if answer.get("feasible"):
        return "fits"
    return f"{answer.get('code')} by {answer.get('plugin') or 'no plugin'} {answer.get('reasons')}"


def _scores(part: str, plugin: str, theirs: Mapping[str, int], ours: Mapping[str, int]) -> Found:
    for node in sorted({*theirs, *ours}):
        yield from _value(f"{part} {plugin}", node, theirs.get(node), ours.get(node))


def _binding(part: str, node: str, theirs: Any, ours: Any) -> Found:
    """Compare what is written to bind a pod to a node, claim by claim in the order of the writes."""
    yield from _plain(part, theirs, ours, ("message", "waits"))
    yield from _value(part, f"{node} status of the pod", _written(theirs.get("pod")), _written(ours.get("pod")))
    yield from _value(part, f"{node} number of claims", len(theirs["claims"]), len(ours["claims"]))
    for their, our in zip(theirs["claims"], ours["claims"], strict=False):
        left, right = _written(their), _written(our)
        for field in sorted({*left, *right}):
            if left.get(field) != right.get(field):
                where = f"{node} {field} of {left['name']}"
                yield Difference(part, f"{where}: theirs {left.get(field)!r}, ours {right.get(field)!r}")


_RANDOM = ("shareID", "allocationTimestamp")


def _written(value: Any) -> Any:
    """Return a written value without empty fields, which the API leaves out, and with random ones as the same text."""
    if isinstance(value, dict):
        known = {key: key if key in _RANDOM and each else _written(each) for key, each in value.items()}
        return {key: each for key, each in known.items() if each not in (None, "", [], {})}
    return [_written(each) for each in value] if isinstance(value, list) else value


def _preemption(theirs: Answer | None, ours: Answer | None) -> Found:
    if theirs is None or ours is None:
        yield from _value("preemption", "all of it", theirs, ours)
        return
    yield from _by_name("candidates", theirs, ours, _candidate)
    yield from _plain("preemption", theirs, ours, ("status", "ties"))
    nominating = _as_if_nominating(theirs.get("message") or "", theirs, ours.get("nominatedNode") or "")
    expected = _with_sorted_errors(nominating)
    yield from _value("preemption", "message", expected, _with_sorted_errors(ours.get("message") or ""))
    yield from _nomination(theirs, ours)


def _candidate(part: str, node: str, theirs: Answer, ours: Answer) -> Found:
    """Compare victims in their order: the last one is evicted last."""
    if theirs.get("victims") != ours.get("victims"):
        yield Difference(part, f"{node} victims: theirs {theirs.get('victims')!r}, ours {ours.get('victims')!r}")
    yield from _plain(part, theirs, ours, ("pdbViolations",))


def _nomination(theirs: Answer, ours: Answer) -> Found:
    """Check that our node is among kube-scheduler's ties, and our victims are those of that node."""
    chosen, node, ties = theirs.get("nominatedNode") or "", ours.get("nominatedNode") or "", theirs.get("ties") or []
    if bool(node) != bool(chosen) or (node and ties and node not in ties):
        yield Difference("preemption", f"nominatedNode: theirs {chosen!r} of {ties!r}, ours {node!r}")
    elif node:
        victims = ((theirs.get("candidates") or {}).get(node) or {}).get("victims")
        yield from _value("preemption", "victims", victims, ours.get("victims"))
