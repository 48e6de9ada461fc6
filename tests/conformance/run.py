"""The comparison: draw cases, evaluate them on both sides, compare, and minimise disagreements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from tests.conformance import ours
from tests.conformance.compare import Difference, compare, merge_attempts, merge_pods
from tests.conformance.generator import Case
from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.minimise import minimised
from tests.conformance.oracle import Oracle, is_skipped

AHEAD = 4  # documents sent to the oracle ahead of our evaluation
_REPETITIONS = 60


class Outcome(NamedTuple):
    """A case, kube-scheduler's results, and the differences of ours; none if kube-scheduler took too long."""

    case: Case
    theirs: list[Any]
    found: list[Difference]


def outcomes(cases: Iterable[Case], oracle: Oracle, second: Oracle) -> Iterator[Outcome]:
    """Yield every case with both sides' results compared. `second` answers disagreements once more."""
    coming = iter(cases)
    waiting = list(islice(coming, AHEAD))
    for case in waiting:
        oracle.send(case.document)
    for following in chain(coming, [None] * len(waiting)):
        case = waiting.pop(0)
        answers = _answers(case.document)
        theirs = oracle.receive()
        if following is not None:
            oracle.send(following.document)
            waiting.append(following)
        yield Outcome(case, *_confirmed(case.document, theirs, answers, second))


def _answers(document: Manifest) -> list[Any] | Exception:
    """Return our results, or the exception that ended the evaluation, which is reported with the case."""
    try:
        return ours.evaluate(document)
    except Exception as error:
        return error


def _compared(theirs: list[Any], answers: list[Any] | Exception) -> list[Difference]:
    if is_skipped(theirs):
        return []
    return [Difference("crash", repr(answers))] if isinstance(answers, Exception) else compare(theirs, answers)


def _confirmed(
    document: Manifest, theirs: list[Any], answers: list[Any] | Exception, oracle: Oracle
) -> tuple[list[Any], list[Difference]]:
    """Return kube-scheduler's results and the differences of ours; of several results those without any.

    It lists ResourceSlices in random order. Whether a pool whose slices contradict each other can be used, and which of
    two errors it reports, depends on that, for each pod and in each attempt of a sequence anew: no repetition need
    agree in all of them. A repetition that takes too long ends them.
    """
    found = _compared(theirs, answers)
    if any(each["kind"] == "ResourceSlice" for each in document["objects"]):
        for _ in range(_REPETITIONS):
            if not found:
                break
            again = oracle.evaluate(document)
            if not is_skipped(again) and not isinstance(answers, Exception):
                again = (merge_attempts if "sequence" in document else merge_pods)(theirs, again, answers)
            theirs = again
            found = _compared(theirs, answers)
    return theirs, found


def smallest(outcome: Outcome, oracle: Oracle) -> Outcome:
    """Return the disagreement reduced to a minimal case."""
    kind = outcome.found[0].kind

    def found(document: Manifest) -> list[Difference]:
        return _confirmed(document, oracle.evaluate(document), _answers(document), oracle)[1]

    def still(document: Manifest) -> bool:
        return any(difference.kind == kind for difference in found(document)[:1])

    document = minimised(outcome.case.document, still)
    theirs, differences = _confirmed(document, oracle.evaluate(document), _answers(document), oracle)
    return Outcome(Case(document, outcome.case.features), theirs, differences)


Show = Callable[[str], None]


def explain(outcome: Outcome, show: Show, most: int = 6) -> None:
    """Show the first differences."""
    show(f"case {outcome.case.document['id']} {outcome.case.document.get('pods')}")
    for difference in outcome.found[:most]:
        show(f"  {difference}")
    if len(outcome.found) > most:
        show(f"  and {len(outcome.found) - most} more")
