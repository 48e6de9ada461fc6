"""An early end of a hopeless search does not change its result."""

from __future__ import annotations

import pytest

from pyscheduler.intree.devices import lookahead
from pyscheduler.intree.devices.pruning import Pruning
from tests.devices import ours, records
from tests.devices.compare import difference
from tests.devices.generator import draw

DOCUMENTS = range(300)
STEPS = 4_000
"""Documents whose exhaustive search is longer are left out."""


def _first_difference() -> str:
    for seed in DOCUMENTS:
        document = draw(seed)
        exhaustive = ours.allocate(document, prunes=False, steps=STEPS)
        if not exhaustive.get("timedOut") and (found := difference(exhaustive, ours.allocate(document))):
            return f"document {seed}: {found}"
    return ""


def test_results_with_and_without_pruning_are_equal() -> None:
    assert not _first_difference()


def test_checks_that_end_no_branch_at_most_double_a_search() -> None:
    """The exhaustive search takes 198,191 steps; with unlimited checks it took 340,126."""
    (recorded,) = records.read(records.FOLDER / "disagreement-8692f79d.jsonl")
    assert not difference(recorded["result"], ours.allocate(recorded["document"], steps=250_000))


@pytest.mark.parametrize("bug", ["counts one device less", "all devices are equivalent"])
def test_planted_bugs_in_pruning_are_detected(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug == "counts one device less":
        original = lookahead.is_candidate
        monkeypatch.setattr(lookahead, "is_candidate", lambda c, i, r, n: n > 0 and original(c, i, r, n))
    else:
        monkeypatch.setattr(Pruning, "equivalence", lambda self, number: 0)
    assert _first_difference()
