"""Random event sequences through the whole core, by the hundred thousand: `make fuzz`.

Simpler and faster than Hypothesis, on all processors, and resumable. Each sequence depends on the seed and its number
only, so these suffice to replay it. All checks run after every step. Every other sequence ends by making every pod
schedulable, the others by looking for pods that were not woken.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from pyscheduler.cli.progress_bar import ProgressBar
from tests.properties.machine_model import WHAT, Step, check_all_bound, check_no_missed_wakeup

LONGEST = 40
"""Maximum number of steps of a sequence."""
_BATCH = 20
"""Number of sequences passed to a process at once."""


class Broken(NamedTuple):
    """A sequence that violates an invariant."""

    number: int
    steps: list[Step]
    why: str


def drawn(seed: int, number: int) -> list[Step]:
    """Return the steps of a sequence."""
    rng = random.Random(f"{seed}/{number}")
    steps = rng.randint(LONGEST // 2, LONGEST) if rng.random() < 0.75 else rng.randint(1, LONGEST // 2)
    return [(rng.choice(WHAT), rng.randrange(10), rng.randrange(12)) for _ in range(steps)]


def check_for(number: int) -> Callable[[list[Step]], None]:
    """Return the check at the end of a sequence."""
    return check_no_missed_wakeup if number % 2 else check_all_bound


def play(number: int, steps: list[Step]) -> str:
    """Return the error after these steps, "" if there is none. Any exception from the core is an error."""
    try:
        check_for(number)(steps)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def play_batch(seed: int, numbers: range) -> tuple[int, Broken | None]:
    """Play some sequences up to the first that fails. Return the number of steps and the failure."""
    done = 0
    for number in numbers:
        steps = drawn(seed, number)
        done += len(steps)
        why = play(number, steps)
        if why:
            return done, Broken(number, steps, why)
    return done, None


def shortened(broken: Broken) -> Broken:
    """Remove the steps that are not needed for the failure, trying each once."""
    steps, why = broken.steps, broken.why
    for index in reversed(range(len(steps))):
        fewer = steps[:index] + steps[index + 1 :]
        error = play(broken.number, fewer)
        if error:
            steps, why = fewer, error
    return Broken(broken.number, steps, why)


class SequenceSearch:
    """Play sequences `start` to `start + count` of a seed; `played` counts those without failure."""

    def __init__(self, seed: int, start: int, count: int, progress: ProgressBar | None = None) -> None:
        self._progress = progress or ProgressBar("fuzz", lines=False)
        self._seed = seed
        self._start = start
        self._end = start + count
        self.played = 0
        self.steps = 0
        self._began = time.monotonic()

    def run(self, processes: int, seconds: float = 0.0) -> Broken | None:
        """Return the first failing sequence; None if there is none within `seconds` (0: no limit)."""
        with self._progress, self._batches(processes) as batches:
            for numbers, (steps, broken) in zip(self._ranges(), batches, strict=True):
                self.steps += steps
                if broken is not None:
                    return broken
                self.played += len(numbers)
                if seconds and time.monotonic() - self._began > seconds:
                    break
                self._progress.show("sequences", self.played, self._end - self._start)
        return None

    def __str__(self) -> str:
        took = time.monotonic() - self._began
        last = self._start + self.played - 1
        many = (
            f"{self.played:,} sequences, {self.steps:,} steps in {took:.0f} s ({self.played / max(took, 0.01):.1f}/s)"
        )
        return f"seed {self._seed}, sequences {self._start} to {last}: {many}, no invariant broken"

    def _ranges(self) -> Iterator[range]:
        return (range(at, min(at + _BATCH, self._end)) for at in range(self._start, self._end, _BATCH))

    @contextmanager
    def _batches(self, processes: int) -> Iterator[Iterator[tuple[int, Broken | None]]]:
        """Yield the result of each batch in order."""
        play_one = partial(play_batch, self._seed)
        if processes == 1:
            yield map(play_one, self._ranges())
            return
        with multiprocessing.Pool(processes) as pool:
            yield pool.imap(play_one, self._ranges())


def main(arguments: Sequence[str] | None = None) -> int:
    """Search; return 1 after a failure and print its steps and the command that replays it."""
    options = _arguments(arguments)
    search = SequenceSearch(options.seed, options.start, options.count, ProgressBar("fuzz"))
    logging.disable()  # bindings fail by the thousand on purpose
    try:
        broken = search.run(options.processes, options.seconds)
        short = broken and shortened(broken)
    finally:
        logging.disable(logging.NOTSET)
    _show(str(search))
    if broken is None or short is None:
        return 0
    _show(f"sequence {broken.number} of seed {options.seed} breaks: {broken.why}")
    _show(f"shortened from {len(broken.steps)} steps: {short.why}")
    for step in short.steps:
        _show(f"    {step}")
    _show(f"replay: {replay_command(options.seed, broken.number)}")
    return 1


def replay_command(seed: int, number: int) -> str:
    """Return the command line that replays one sequence."""
    return f"python -m tests.properties.sequences --seed {seed} --start {number} --count 1"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.properties.sequences", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, metavar="N", help="number of sequences to play")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first sequence")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the sequences")
    parser.add_argument(
        "--seconds", type=float, default=0.0, metavar="T", help="stop after this time and print the progress"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    return parser.parse_args(arguments)


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
