"""The examples of docs/replay.md are the output of the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyscheduler.cli.program import app
from tests.docs.pages import blocks
from tests.unit.cli.recorded_shop import record, shop

SHOWN = [block.text.strip() for block in blocks("docs/replay.md") if block.language == "text"]


@pytest.mark.parametrize(("words", "shown"), [*zip(((), ("--pod", "shop/web")), SHOWN, strict=True)])
def test_output_on_the_page_is_that_of_the_command(
    words: tuple[str, ...], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path, shop).rename("2026-05-04T102000Z-1.recording")
    result = CliRunner(env={"COLUMNS": "240"}).invoke(app, ["replay", ".", *words])
    assert result.stdout.strip() == shown
