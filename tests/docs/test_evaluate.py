"""The worked example of docs/evaluate.md is what the command says."""

from __future__ import annotations

import json

from pyscheduler.cli.evaluate import Evaluator
from tests.docs.pages import EXAMPLES, ROOT, blocks, rows, words_in_code

PAGE = "docs/evaluate.md"


def test_the_answers_on_the_page_are_those_of_the_example() -> None:
    with (EXAMPLES / "evaluate.jsonl").open() as lines:
        said = [answer for line in lines for answer in Evaluator().line(line)]
    shown = [json.loads(block.text) for block in blocks(PAGE) if block.language == "json"]
    assert shown == said
    assert [list(answer) for answer in shown] == [list(answer) for answer in said], "keys in their order"


def test_every_key_is_in_the_tables() -> None:
    told = {
        word
        for heading in ("The input", "The result")
        for row in rows(PAGE, heading)
        for word in words_in_code(row[0])
    }
    shown = {key for block in blocks(PAGE) if block.language == "json" for key in json.loads(block.text)}
    source = (ROOT / "docs/examples/evaluate.jsonl").read_text()
    assert shown | {"preenqueue", "error"} | set(json.loads(source)) <= told | {"pod"}
