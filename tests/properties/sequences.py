"""Random sequences of events through the whole core, by the hundred thousand: `make fuzz`.

Hypothesis hunts cleverly and slowly; this hunts simply, on every processor, and can be taken up where it was left.
Each sequence is drawn from the seed and its number alone: that is all it takes to play it again. After every step the
world looks at everything; every other sequence ends with room for all, the rest with a look for who has overslept.
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

from tests.properties.machine_model import WHAT, Step, prove_sound, prove_woken

LONGEST = 40
"""Steps of a sequence."""
_PIECE = 20
"""Sequences that a process is given at once."""
_EVERY_SECONDS = 10.0


class Broken(NamedTuple):
    """A sequence after which something was wrong."""

    number: int
    steps: list[Step]
    why: str


def drawn(seed: int, number: int) -> list[Step]:
    """The steps of a sequence."""
    chance = random.Random(f"{seed}/{number}")
    steps = chance.randint(LONGEST // 2, LONGEST) if chance.random() < 0.75 else chance.randint(1, LONGEST // 2)
    return [(chance.choice(WHAT), chance.randrange(10), chance.randrange(12)) for _ in range(steps)]


def proof(number: int) -> Callable[[list[Step]], None]:
    """How a sequence ends, and what must be true then."""
    return prove_woken if number % 2 else prove_sound


def play(number: int, steps: list[Step]) -> str:
    """Why something is wrong after these steps, "" if nothing is. Any exception of the core's is."""
    try:
        proof(number)(steps)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def play_piece(seed: int, numbers: range) -> tuple[int, Broken | None]:
    """Play some sequences up to the first that breaks; how many steps there were."""
    done = 0
    for number in numbers:
        steps = drawn(seed, number)
        done += len(steps)
        why = play(number, steps)
        if why:
            return done, Broken(number, steps, why)
    return done, None


def shortened(broken: Broken) -> Broken:
    """The same without the steps that do not matter, each left out once."""
    steps, why = broken.steps, broken.why
    for place in reversed(range(len(steps))):
        fewer = steps[:place] + steps[place + 1 :]
        still = play(broken.number, fewer)
        if still:
            steps, why = fewer, still
    return Broken(broken.number, steps, why)


class SequenceSearch:
    """Plays sequences `start` to `start + count` of a seed; `played` says how far it has come without finding any."""

    def __init__(self, seed: int, start: int, count: int) -> None:
        self._seed = seed
        self._start = start
        self._end = start + count
        self.played = 0
        self.steps = 0
        self._began = self._told = time.monotonic()

    def run(self, processes: int, seconds: float = 0.0) -> Broken | None:
        """The first sequence that breaks, None if none does, or none in so many seconds (0: without end)."""
        with self._pieces(processes) as pieces:
            for numbers, (steps, broken) in zip(self._ranges(), pieces, strict=True):
                self.steps += steps
                if broken is not None:
                    return broken
                self.played += len(numbers)
                if seconds and time.monotonic() - self._began > seconds:
                    break
                if time.monotonic() - self._told > _EVERY_SECONDS:
                    self._told = time.monotonic()
                    _show(str(self))
        return None

    def __str__(self) -> str:
        took = time.monotonic() - self._began
        last = self._start + self.played - 1
        many = (
            f"{self.played:,} sequences, {self.steps:,} steps in {took:.0f} s ({self.played / max(took, 0.01):.1f}/s)"
        )
        return f"seed {self._seed}, sequences {self._start} to {last}: {many}, no invariant broken"

    def _ranges(self) -> Iterator[range]:
        return (range(at, min(at + _PIECE, self._end)) for at in range(self._start, self._end, _PIECE))

    @contextmanager
    def _pieces(self, processes: int) -> Iterator[Iterator[tuple[int, Broken | None]]]:
        """What comes of each piece, in order."""
        play_one = partial(play_piece, self._seed)
        if processes == 1:
            yield map(play_one, self._ranges())
            return
        with multiprocessing.Pool(processes) as pool:
            yield pool.imap(play_one, self._ranges())


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunts; 1 if a sequence breaks something, told with its steps and with the line that plays it again."""
    options = _arguments(arguments)
    hunt = SequenceSearch(options.seed, options.start, options.count)
    logging.disable()  # bindings fail by the thousand, as they are told to
    try:
        broken = hunt.run(options.processes, options.seconds)
        short = broken and shortened(broken)
    finally:
        logging.disable(logging.NOTSET)
    _show(str(hunt))
    if broken is None or short is None:
        return 0
    _show(f"sequence {broken.number} of seed {options.seed} breaks: {broken.why}")
    _show(f"so do these of its {len(broken.steps)} steps: {short.why}")
    for step in short.steps:
        _show(f"    {step}")
    _show(f"again: {again(options.seed, broken.number)}")
    return 1


def again(seed: int, number: int) -> str:
    """The command line that plays one sequence."""
    return f"python -m tests.properties.sequences --seed {seed} --start {number} --count 1"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.properties.sequences", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, metavar="N", help="how many sequences to play")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the number of the first one")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="what they are drawn from")
    parser.add_argument("--seconds", type=float, default=0.0, metavar="T", help="stop after so long, saying how far")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    return parser.parse_args(arguments)


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
