"""The comparison itself: draws cases, asks both sides, compares, and makes disagreements small."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from tests.conformance import ours
from tests.conformance.compare import Difference, compare
from tests.conformance.generator import Case
from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.minimise import minimised
from tests.conformance.oracle import Oracle

AHEAD = 4  # documents that the oracle works on while our side answers earlier ones


class Outcome(NamedTuple):
    """A case, kube-scheduler's answers to it, and what ours differ in."""

    case: Case
    theirs: list[Any]
    found: list[Difference]


def outcomes(cases: Iterable[Case], oracle: Oracle) -> Iterator[Outcome]:
    """Both sides' answers to every case, compared."""
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
        yield Outcome(case, theirs, _compared(theirs, answers))


def _answers(document: Manifest) -> list[Any] | Exception:
    """Ours; what ends them early is to be told beside the case."""
    try:
        return ours.evaluate(document)
    except Exception as error:
        return error


def _compared(theirs: list[Any], answers: list[Any] | Exception) -> list[Difference]:
    return [Difference("crash", repr(answers))] if isinstance(answers, Exception) else compare(theirs, answers)


def smallest(outcome: Outcome, oracle: Oracle) -> Outcome:
    """The same disagreement about as little as possible."""
    kind = outcome.found[0].kind

    def found(document: Manifest) -> list[Difference]:
        return _compared(oracle.ask(document), _answers(document))

    def still(document: Manifest) -> bool:
        return any(difference.kind == kind for difference in found(document)[:1])

    document = minimised(outcome.case.document, still)
    theirs = oracle.ask(document)
    return Outcome(Case(document, outcome.case.features), theirs, _compared(theirs, _answers(document)))


Show = Callable[[str], None]


def explain(outcome: Outcome, show: Show, most: int = 6) -> None:
    """The first differences in words."""
    show(f"case {outcome.case.document['id']} {outcome.case.document.get('pods')}")
    for difference in outcome.found[:most]:
        show(f"  {difference}")
    if len(outcome.found) > most:
        show(f"  and {len(outcome.found) - most} more")
