"""The example of docs/evaluate.md is the output of the command."""

from __future__ import annotations

import json

from pyscheduler.cli.evaluate import Evaluator
from tests.docs.pages import EXAMPLES, ROOT, blocks, rows, words_in_code

PAGE = "docs/evaluate.md"


def test_results_on_the_page_are_those_of_the_example() -> None:
    with (EXAMPLES / "evaluate.jsonl").open() as lines:
        results = [result for line in lines for result in Evaluator().line(line)]
    shown = [json.loads(block.text) for block in blocks(PAGE) if block.language == "json"]
    assert shown == results
    assert [list(result) for result in shown] == [list(result) for result in results], "order of keys"


def test_every_key_is_in_the_tables() -> None:
    documented = {
        word for heading in ("The input", "The result") for row in rows(PAGE, heading) for word in words_in_code(row[0])
    }
    shown = {key for block in blocks(PAGE) if block.language == "json" for key in json.loads(block.text)}
    source = (ROOT / "docs/examples/evaluate.jsonl").read_text()
    assert shown | {"preenqueue", "error"} | set(json.loads(source)) <= documented | {"pod"}
