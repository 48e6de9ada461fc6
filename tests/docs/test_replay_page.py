"""The examples of docs/replay.md are the output of the command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from pyscheduler import __version__
from pyscheduler.cli.program import app
from pyscheduler.shell.recording.file import RecordingReader, encode_header
from pyscheduler.testing import Harness, node, pod
from tests.docs.pages import blocks
from tests.unit.cli.recorded_shop import record, shop

SHOWN = [block.text.strip() for block in blocks("docs/replay.md") if block.language == "text"]
FILE = "2026-05-04T102000Z-1.recording"
MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""


def output(*words: str) -> str:
    """Return what `pyscheduler replay` prints, as on the page: by version 0.1.0, without spaces at the end of lines."""
    text = CliRunner(env={"COLUMNS": "240"}).invoke(app, ["replay", *words]).stdout
    return re.sub(r" +$", "", text.strip(), flags=re.M).replace(__version__, "0.1.0")


@pytest.mark.parametrize(
    ("words", "shown"), [((), SHOWN[0]), (("--pods",), SHOWN[2]), (("--pod", "shop/web"), SHOWN[3])]
)
def test_output_on_the_page_is_that_of_the_command(
    words: tuple[str, ...], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path, shop).rename(FILE)
    assert output(".", *words) == shown


def place_beside_another_pod(harness: Harness) -> None:
    harness.add(node("worker-1", cpu="4"), node("worker-2", cpu="4"), pod("db").requests(cpu="2").on("worker-1"))
    harness.add(pod("web").namespace("shop").requests(cpu="1"))
    harness.run()


def test_difference_on_the_page_is_that_of_a_version_that_decides_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path, place_beside_another_pod).rename(FILE)
    reader = RecordingReader(Path(FILE))
    batches = Path(FILE).read_bytes()[reader.position :]
    header = replace(reader.header, version="0.0.9", config=MOST_ALLOCATED)
    Path(FILE).write_bytes(encode_header(header) + batches)
    assert output(".") == SHOWN[1]
