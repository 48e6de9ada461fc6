"""A short run of the sequence search, and planted bugs that it must find. `make fuzz` is the long run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.core import event_handlers
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.queue import SchedulingQueue
from pyscheduler.core.queue.inflight import InFlight
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.scheduling import binding, schedule_one, suspended_attempts
from tests.properties import sequences
from tests.properties.sequences import Broken, SequenceSearch, drawn, play, shortened
from tests.unit.cli.terminal import CLEAR, Terminal
from tests.unit.kube.virtual import VirtualClock


def test_two_hundred_sequences_violate_no_invariant() -> None:
    search = SequenceSearch(seed=1, start=0, count=200)
    assert search.run(processes=1) is None, "python -m tests.properties.sequences --seed 1 --count 200"
    assert search.played == 200


def test_sequence_depends_on_seed_and_number_only() -> None:
    assert drawn(3, 14) == drawn(3, 14) != drawn(3, 15)
    assert drawn(3, 14) != drawn(4, 14)


def _keep_assumed_pods(patch: pytest.MonkeyPatch) -> None:
    def keep(context: Context, assumed: AssumedPod) -> None:
        context.handle.waiting_pods.by_uid.pop(assumed.pod.uid, None)

    for module in (schedule_one, binding, event_handlers, suspended_attempts):
        patch.setattr(module, "forget_pod", keep)


def _keep_deleted_pods_queued(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulingQueue, "delete", lambda self, uid, placed_on="": self.nominator.remove(uid))


def _keep_attempts_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "done", lambda self, uid: None)


def _keep_nominations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Nominator, "remove", lambda self, uid, placed_on="": None)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_keep_assumed_pods, "assumed|holds a reservation|is in "),
        (_keep_deleted_pods_queued, "is in the queue and no longer exists|is in stages assigned and "),
        (_keep_attempts_in_flight, "is in flight"),
        (_keep_nominations, "is nominated to"),
    ],
)
def test_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant(monkeypatch)
    assert sequences.main(["--seed", "1", "--count", "300", "--processes", "1"]) == 1
    output = capsys.readouterr().out
    (why,) = [line for line in output.splitlines() if "breaks: " in line]
    assert any(words in why for words in message.split("|")), output
    number = why.split()[1]
    assert output.splitlines()[-1].endswith(f"--seed 1 --start {number} --count 1")


def test_terminal_shows_how_many_sequences_are_played() -> None:
    terminal, clock = Terminal(), VirtualClock()
    clock.step = 5.0
    SequenceSearch(1, 0, 60, ProgressBar("fuzz", stream=terminal, clock=clock)).run(processes=1)

    assert terminal.getvalue().split(CLEAR) == [
        "",
        "[########----------------] fuzz: sequences, 20 of 60, 5 s",
        "[################--------] fuzz: sequences, 40 of 60, 10 s",
        "[########################] fuzz: sequences, 60 of 60, 15 s",
        "",
    ]


def test_failing_sequence_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(steps: list[tuple[str, int, int]]) -> None:
        if ("mark", 3, 0) in steps:
            raise ValueError("3 is marked")

    monkeypatch.setattr(sequences, "check_for", lambda number: check)
    steps = [("pod", 1, 1), ("mark", 3, 0), ("time", 0, 0)]
    broken = Broken(7, steps, play(7, steps))
    assert broken.why == "ValueError: 3 is marked"
    assert shortened(broken) == Broken(7, [("mark", 3, 0)], broken.why)
