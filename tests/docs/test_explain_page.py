"""The examples of docs/explain.md are the output of the command."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pyscheduler.cli.program import app
from tests.docs.pages import EXAMPLES, blocks

SHOWN = [block.text.strip() for block in blocks("docs/explain.md") if block.language == "text"]


@pytest.mark.parametrize(("pod", "shown"), [*zip(("shop/web", "shop/mail"), SHOWN, strict=True)])
def test_output_on_the_page_is_that_of_the_command(pod: str, shown: str) -> None:
    result = CliRunner(env={"COLUMNS": "240"}).invoke(app, ["explain", pod, "--load", str(EXAMPLES / "explain.yaml")])
    assert result.stdout.strip() == shown
