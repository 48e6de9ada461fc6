"""Command line of `python -m pyscheduler.controllers`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from pyscheduler import interrupt
from pyscheduler.controllers.operator import PodGroupOperator
from pyscheduler.kube.credentials import ConnectionProblem


def run() -> int:
    """Run until SIGINT or SIGTERM. Return 0 after a requested stop, 1 if the controller cannot start."""
    parser = argparse.ArgumentParser(
        prog="pyscheduler.controllers",
        description="Run the PodGroup controller, which updates the status of PodGroups.",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, help="path of the kubeconfig (default: $KUBECONFIG, in-cluster service account)"
    )
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="manage Volcano's PodGroups, Queues and Jobs of this scheduler (repeatable; default: none)",
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(PodGroupOperator(options.kubeconfig, volcano_schedulers=options.scheduler_name).run())
    except ConnectionProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    except KeyboardInterrupt:  # a second one, while the controller stops
        return interrupt.EXIT_CODE
    finally:
        interrupt.exit_at_once()  # the event loop has restored the default handler
    return 0
