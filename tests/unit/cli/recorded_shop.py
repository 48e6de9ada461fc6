"""A recording of a shop's pod that finds no node at first: the example of docs/replay.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyscheduler.clock import SystemClock
from pyscheduler.shell.recording.file import find_recordings
from pyscheduler.shell.recording.writer import RecordingWriter
from pyscheduler.testing import Harness, pod
from tests.properties.recorded import recorded_machines

EPOCH = 1_777_890_000.0 - 1000.0
"""Unix time at which the harness's clock is 0; the harness starts at 1000 s."""
EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "explain.yaml"
UNCORDONED = """
apiVersion: v1
kind: Node
metadata: {name: worker-3}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""


@contextmanager
def recorded_harness(directory: Path, config: str | None = None) -> Iterator[Harness]:
    """Yield a harness that is recorded in a directory; the recording is complete after the block."""
    with RecordingWriter(directory, 1 << 20, SystemClock()) as recording:
        with recorded_machines(lambda: recording, epoch=EPOCH):
            harness = Harness(config)
        yield harness


def record(directory: Path, play: Callable[[Harness], None], config: str | None = None) -> Path:
    """Record a harness in a directory; return the file."""
    with recorded_harness(directory, config) as harness:
        play(harness)
    return find_recordings(directory)[-1]


def shop(harness: Harness) -> None:
    """The pod shop/web fits no node until one is uncordoned."""
    harness.apply(EXAMPLE.read_text())
    harness.run()
    harness.advance(20.0)
    harness.apply(UNCORDONED)
    harness.advance(5.0)
    assert harness.assignments["web"] == "worker-3"


def place(harness: Harness, *names: str) -> None:
    """Place pods of these names on one node."""
    harness.apply(UNCORDONED)
    harness.add(*(pod(name).requests(cpu="1m") for name in names))
    harness.run()
