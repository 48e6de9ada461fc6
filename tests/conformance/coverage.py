"""Coverage of a run: features, reasons, scores that differ between nodes, preemptions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.conformance.compare import Difference
from tests.conformance.generator import Case
from tests.conformance.oracle import is_skipped, panic

_NAMED = re.compile(r'"[^"]*"|(?<=PVC )\S+|(?<=ResourceClaim )\S+|(?<=[Pp]od )\S+/\S+|\[[^\]]*\]')


def subjects(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what one result exercises, without the names in the case."""
    if "error" in answer:
        yield "error"
    for attempt in answer.get("attempts") or ():
        yield f"attempt {'that preempts' if attempt['victims'] else 'that places' if attempt['node'] else 'that fails'}"
    for part in ("preenqueue", "prefilter"):
        verdict = answer.get(part) or {}
        for reason in verdict.get("reasons") or ():
            yield f"reason {part} {verdict['plugin']}: {plain(reason)}"
    for node in (answer.get("nodes") or {}).values():
        for reason in (not node["feasible"] and node["reasons"]) or ():
            yield f"reason {node['plugin'] or '-'} {node['code']}: {plain(reason)}"
    for plugin, scores in (answer.get("scores") or {}).items():
        if len(set(scores.values())) > 1:
            yield f"score {plugin}"
    yield from _preemption(answer.get("preemption") or {})


def _preemption(preemption: Mapping[str, Any]) -> Iterator[str]:
    if not preemption:
        return
    yield f"preemption {preemption['status']}"
    if len(preemption.get("ties") or ()) > 1:
        yield "preemption with ties"
    candidates = (preemption.get("candidates") or {}).values()
    if any(candidate["pdbViolations"] for candidate in candidates):
        yield "preemption that violates a budget"
    if len({candidate["pdbViolations"] for candidate in candidates}) > 1:
        yield "preemption where budgets decide"
    if len({len(candidate["victims"]) for candidate in candidates}) > 1:
        yield "preemption with unequal numbers of victims"
    yield from (f"preemption with {number} candidates" for number in range(2, min(len(candidates), 6) + 1))
    if any(len(candidate["victims"]) > 1 for candidate in candidates):
        yield "preemption of several victims"


def plain(reason: str) -> str:
    """Return the reason without the names in it."""
    return _NAMED.sub("..", reason)


class Coverage:
    """Counts over a run."""

    def __init__(self) -> None:
        self.cases = 0
        self.pods = 0
        self.feature_cases: Counter[str] = Counter()
        self.feature_pods: Counter[str] = Counter()
        self.subjects: Counter[str] = Counter()
        self.unfit = 0
        self.disagreements: Counter[str] = Counter()
        self.panics: Counter[str] = Counter()
        """Panics of kube-scheduler by text."""
        self.panicked: list[object] = []
        """Ids of the cases in which it panicked."""
        self.skipped: list[object] = []
        """Ids of the cases for which it took too long."""

    def add(self, case: Case, theirs: Iterable[Mapping[str, Any]], found: Sequence[Difference]) -> None:
        """Add a case with kube-scheduler's results and our differences; the first difference counts."""
        answers = list(theirs)
        if is_skipped(answers):
            self.skipped.append(case.document["id"])
            return
        texts = [text for text in map(panic, answers) if text]
        self.panics.update(texts)
        self.panicked += [case.document["id"]] if texts else []
        self.cases += 1
        self.pods += len(answers)
        self.feature_cases.update(case.features)
        self.feature_pods.update(dict.fromkeys(case.features, len(answers)))
        for answer in answers:
            self.subjects.update(set(subjects(answer)))
            self.unfit += "filter_message" in answer
        if found:
            self.disagreements[found[0].kind] += 1

    def table(self) -> Iterator[str]:
        """Yield the counts as lines of text."""
        yield f"{self.cases} cases, {self.pods} pods, of which {self.unfit} fit nowhere"
        yield f"\n{'feature':<44}{'cases':>8}{'pods':>8}"
        for feature in sorted(self.feature_cases):
            yield f"{feature:<44}{self.feature_cases[feature]:>8}{self.feature_pods[feature]:>8}"
        yield f"\n{'exercised, by pods':<110}{'pods':>8}"
        for subject in sorted(self.subjects):
            yield f"{subject:<110}{self.subjects[subject]:>8}"
        yield f"\ndisagreements: {sum(self.disagreements.values())}"
        for kind, number in self.disagreements.most_common():
            yield f"{kind:<44}{number:>8}"
        yield f"\npanics of kube-scheduler: {sum(self.panics.values())}, in cases {self.panicked}"
        for text, number in self.panics.most_common():
            yield f"{number:>8}  {text}"
        yield f"\nskipped, because kube-scheduler took too long: {len(self.skipped)}, cases {self.skipped}"
