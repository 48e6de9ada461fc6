"""Our side of the comparison: `pyscheduler evaluate` without a process per document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from pyscheduler.cli.evaluate import Evaluator
from pyscheduler.core.framework import score_plugins
from tests.conformance.bindings import bindings
from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.replay import schedule

_EVALUATOR = Evaluator()


PLAIN = 10**9
NUMPY = 0
"""Number of nodes up to which plugins run in their per-node form; clusters here are below the usual limit."""


def evaluate(document: Manifest, limit: int | None = None) -> list[Any]:
    """Return the results for a document of either kind, passed through JSON.

    `limit` is PLAIN or NUMPY; without it, the document's id selects one. An error of a plugin is a result; any other
    error is raised.
    """
    if "sequence" in document:
        return [schedule(document)]
    if limit is None:
        limit = (PLAIN, NUMPY)[crc32(str(document["id"]).encode()) % 2]
    with _per_node_form_up_to(limit):
        answers = [json.loads(json.dumps(answer)) for answer in _EVALUATOR.line(json.dumps(document))]
        for answer in answers:
            answer["bindings"] = bindings(_EVALUATOR, document, answer)
        return answers


@contextmanager
def _per_node_form_up_to(nodes: int) -> Iterator[None]:
    """Use the per-node form up to that many nodes, and the NumPy form for more."""
    usual, score_plugins.FEW = score_plugins.FEW, nodes
    try:
        yield
    finally:
        score_plugins.FEW = usual
