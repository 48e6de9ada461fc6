"""No pod stays parked once it fits, over random events by the hundred thousand: `make wakeups`.

After every event each parked pod is evaluated without caches, by per-node calls, and must still be rejected. A pod that
would fit waits for the five-minute flush, because a plugin's queueing hint is missing or too narrow. Pods nominated to
a node must not wait for one that cannot be cleared by preemption either.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pyscheduler.cli.progress_bar import ProgressBar
from tests.conformance.generator import GROUPS
from tests.properties.wakeup.story import Story, play, shortened

_BATCH = 10
"""Number of stories passed to a process at once."""


class WakeupSearch:
    """Play the stories of a seed up to a number of events or the first missed wake-up."""

    def __init__(
        self, seed: int, start: int, events: int, feature: str = "", progress: ProgressBar | None = None
    ) -> None:
        self._progress = progress or ProgressBar("wakeups", lines=False)
        self._seed = seed
        self._feature = feature
        self._numbers = range(start, start + events)  # a story without any event is rare, and counts for one
        self._wanted = events
        self.stories = self.events = self.looks = 0
        self._began = time.monotonic()

    def run(self, processes: int) -> Story | None:
        """Return the first story with a missed wake-up, None if there is none."""
        with self._progress, self._stories(processes) as stories:
            for story in stories:
                self.stories += 1
                self.events += max(1, story.events)
                self.looks += story.looks
                if story.missed:
                    return story
                if self.events >= self._wanted:
                    break
                self._progress.show("events", self.events, self._wanted)
        return None

    def __str__(self) -> str:
        took = time.monotonic() - self._began
        last = self._numbers.start + self.stories - 1
        return (
            f"seed {self._seed}, stories {self._numbers.start} to {last}: {self.events:,} events, "
            f"{self.looks:,} evaluations of parked pods in {took:.0f} s"
        )

    @contextmanager
    def _stories(self, processes: int) -> Iterator[Iterator[Story]]:
        play_one = partial(play, self._seed, self._feature)
        if processes == 1:
            yield map(play_one, self._numbers)
            return
        with multiprocessing.Pool(processes) as pool:
            yield pool.imap(play_one, self._numbers, _BATCH)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search; return 1 after a missed wake-up and print the relevant events and the command that replays them."""
    options = _arguments(arguments)
    progress = ProgressBar("wakeups")
    search = WakeupSearch(options.seed, options.start, options.events, options.feature, progress)
    logging.disable()  # bindings fail by the thousand on purpose
    try:
        story = search.run(options.processes)
        short = story and shortened(options.seed, options.feature, story)
    finally:
        logging.disable(logging.NOTSET)
    _show(str(search))
    if short is None:
        return 0
    for missed in short.missed:
        _show(f"story {short.number} of seed {options.seed}: {missed}")
    for line in short.lines:
        _show(f"    {line}")
    _show(f"replay: {replay_command(options.seed, options.feature, short.number)}")
    return 1


def replay_command(seed: int, feature: str, number: int) -> str:
    """Return the command line that replays one story."""
    feature_option = f" --feature {feature}" if feature else ""
    return f"python -m tests.properties.wakeups --seed {seed}{feature_option} --start {number} --events 1 --processes 1"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.properties.wakeups", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, metavar="N", help="number of events to play")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first story")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the stories")
    parser.add_argument(
        "--feature", default="", choices=["", *GROUPS], help="feature group that every cluster must have"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    return parser.parse_args(arguments)


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
