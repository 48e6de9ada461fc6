"""Recorded outcomes of Kubernetes' evaluation, which tests replay without Go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.cel import oracle
from tests.cel.case import Case
from tests.cel.expressions import EXPRESSIONS
from tests.cel.generator import Generator

FILE: Final = Path(__file__).parent.parent / "unit" / "cel" / "vectors.json"
_DEVICES: Final = 6
_LONGEST: Final = 160
_SEED: Final = 1372


def read() -> Iterator[tuple[Case, dict[str, Any]]]:
    """Yield the recorded cases with their outcomes."""
    recorded = json.loads(FILE.read_text())
    for expression, device, outcome in recorded["cases"]:
        yield Case(expression, recorded["devices"][device]), outcome


def record(path: Path, count: int) -> int:
    """Record the outcomes of the written and of `count` random expressions; return how many."""
    rng = Random(_SEED)
    generator = Generator(rng)
    devices = [generator.device() for _ in range(_DEVICES)]
    chosen = [(expression, number % _DEVICES) for number, expression in enumerate(EXPRESSIONS)]
    while len(chosen) < len(EXPRESSIONS) + count:
        expression = generator.case().expression
        if len(expression) <= _LONGEST:
            chosen.append((expression, rng.randrange(_DEVICES)))
    cases = [Case(expression, devices[device]) for expression, device in chosen]
    outcomes = list(oracle.evaluate(path, cases))
    rows = [[*choice, outcome] for choice, outcome in zip(chosen, outcomes, strict=True)]
    FILE.write_text(_lines(devices, rows))
    return len(rows)


def _lines(devices: Sequence[dict[str, Any]], rows: Sequence[list[Any]]) -> str:
    """Return the document with one device or case a line."""
    parts = {"devices": devices, "cases": rows}
    texts = []
    for name, entries in parts.items():
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        texts.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(texts) + "\n}\n"
