"""Our side of the comparison: what `pyscheduler evaluate` answers, without a process for each document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from pyscheduler.cli.evaluate import Evaluator
from pyscheduler.core.decide import filtering
from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.replay import schedule

_EVALUATOR = Evaluator()


PLAIN = 10**9
NUMPY = 0
"""Up to how many nodes plugins are asked in their plain form: for the usual limit, clusters here are too small."""


def evaluate(document: Manifest, limit: int | None = None) -> list[Any]:
    """The answers, through JSON as a user gets them, to a document of either kind.

    `limit` is PLAIN or NUMPY; left out, the document's id decides. A plugin's fault is an answer; a fault beyond that
    is raised.
    """
    if "sequence" in document:
        return [schedule(document)]
    if limit is None:
        limit = (PLAIN, NUMPY)[crc32(str(document["id"]).encode()) % 2]
    with _asked_up_to(limit):
        return [json.loads(json.dumps(answer)) for answer in _EVALUATOR.line(json.dumps(document))]


@contextmanager
def _asked_up_to(nodes: int) -> Iterator[None]:
    """The plain form answers for so many nodes, and the NumPy form for more."""
    usual, filtering.FEW = filtering.FEW, nodes
    try:
        yield
    finally:
        filtering.FEW = usual
