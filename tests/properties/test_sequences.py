"""The hunt over random sequences: a short one, and that it finds what it is to find. `make fuzz` is the long one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.core import binding, event_handlers, scheduling_cycle
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.queue import SchedulingQueue
from pyscheduler.core.queue.inflight import InFlight
from pyscheduler.core.queue.nominator import Nominator
from tests.properties import sequences
from tests.properties.sequences import Broken, SequenceSearch, drawn, play, shortened


def test_two_hundred_sequences_break_nothing() -> None:
    hunt = SequenceSearch(seed=1, start=0, count=200)
    assert hunt.run(processes=1) is None, "python -m tests.properties.sequences --seed 1 --count 200"
    assert hunt.played == 200


def test_a_sequence_is_drawn_from_its_seed_and_number_alone() -> None:
    assert drawn(3, 14) == drawn(3, 14) != drawn(3, 15)
    assert drawn(3, 14) != drawn(4, 14)


def _the_assumed_are_never_forgotten(patch: pytest.MonkeyPatch) -> None:
    def keep(context: Context, assumed: AssumedPod) -> None:
        context.handle.waiting.pop(assumed.pod.uid, None)

    for module in (scheduling_cycle, binding, event_handlers):
        patch.setattr(module, "release", keep)


def _the_deleted_stay_in_the_queue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulingQueue, "delete", lambda self, uid, placed_on="": self.nominator.remove(uid))


def _attempts_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "done", lambda self, uid: None)


def _nominations_outlive_their_pods(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Nominator, "remove", lambda self, uid, placed_on="": None)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (_the_assumed_are_never_forgotten, "assumed|holds a reservation|is in "),
        (_the_deleted_stay_in_the_queue, "is in the queue and no longer exists|is in queue and a node"),
        (_attempts_never_end, "is in flight"),
        (_nominations_outlive_their_pods, "is nominated to"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant(monkeypatch)
    assert sequences.main(["--seed", "1", "--count", "300", "--processes", "1"]) == 1
    told = capsys.readouterr().out
    (why,) = [line for line in told.splitlines() if "breaks: " in line]
    assert any(words in why for words in complaint.split("|")), told
    number = why.split()[1]
    assert told.splitlines()[-1].endswith(f"--seed 1 --start {number} --count 1")


def test_of_a_sequence_that_breaks_only_what_matters_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def prove(steps: list[tuple[str, int, int]]) -> None:
        if ("mark", 3, 0) in steps:
            raise ValueError("3 is marked")

    monkeypatch.setattr(sequences, "proof", lambda number: prove)
    steps = [("pod", 1, 1), ("mark", 3, 0), ("time", 0, 0)]
    broken = Broken(7, steps, play(7, steps))
    assert broken.why == "ValueError: 3 is marked"
    assert shortened(broken) == Broken(7, [("mark", 3, 0)], broken.why)
