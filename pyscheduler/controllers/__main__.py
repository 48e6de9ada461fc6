"""`python -m pyscheduler.controllers [--kubeconfig FILE]`: the PodGroup controller by itself."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from pyscheduler.controllers import ControllerProblem, PodGroupOperator


def main() -> int:
    """Run until SIGINT or SIGTERM. 0: stopped as asked; 1: it could not start."""
    parser = argparse.ArgumentParser(prog="pyscheduler.controllers", description="Keep the status of PodGroups.")
    parser.add_argument("--kubeconfig", type=Path, help="default: the service account of the pod this runs in")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(PodGroupOperator(options.kubeconfig).run())
    except ControllerProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
