"""SchedulingBasic in a size of one's own: `python -m bench.side_by_side --nodes 1000 --pods 2000 --rounds 2`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench import compare, suite


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5000,
    pods: Annotated[int, typer.Option(min=2)] = 5000,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    contenders: str = "pyscheduler,kube-scheduler,bare-client,bare-client-events",
    json: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Measure schedulers side by side."""
    params = {"initNodes": nodes, "initPods": 0, "measurePods": pods}
    cases = compare.with_params(suite.select(suite.load(), ["SchedulingBasic/500Nodes"]), params)
    compare.run(compare.Plan(compare.chosen(contenders), cases, rounds, 600.0), compare.Output(json, markdown))


if __name__ == "__main__":
    typer.run(main)
