"""Comparison with the base commit, for CI: `python -m bench.decide.base`.

The base is the commit that a branch started from, or the previous one. Slower rows are shown and are no error, as a
shared machine is noisy; `--compare` repeats one scenario with more turns.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.decide import comparison

SCENARIOS: Final = ("nothing", "affinity", "node-changes", "deployments", "full-cluster", "preemption")
OPTIONS: Final = ("--nodes", "1000", "--pods", "200", "--rounds", "2", "--scale", "0.1")
TURNS: Final = 5
TRUNK: Final = "origin/main"
_KERNELS: Final = Path("pyscheduler", "kernels")


def main() -> None:
    """Compare this checkout with its base commit and print the slower rows."""
    base = base_commit(comparison.CHECKOUT)
    if base is None:
        print("Decisions are not compared: there is no git history, or this is its first commit")
        return
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        export(comparison.CHECKOUT, base, tree)
        add_kernels(comparison.CHECKOUT, tree)
        measured = comparison.compare(tree, ("--scenario", ",".join(SCENARIOS), *OPTIONS), TURNS)
    for name, error in comparison.left_out(measured).items():
        print(f"{name} is not compared: {error}")
    found = comparison.ratios(measured)
    slower = [row for row in found if row.is_slower]
    print(f"{len(slower)} of {len(found)} rows are more than 15 % slower than {base[:10]}")
    if slower:
        Console(width=120).print(comparison.ratio_table(slower))


def base_commit(checkout: Path, trunk: str = TRUNK) -> str | None:
    """Return the commit where the branch left the trunk, on the trunk itself the previous commit; None without one."""
    head = _git(checkout, "rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        return None
    common = _git(checkout, "merge-base", "HEAD", trunk)
    if common is not None and common != head:
        return common
    return _git(checkout, "rev-parse", "--verify", "--quiet", "HEAD~1")


def export(checkout: Path, commit: str, tree: Path) -> None:
    """Write the files of a commit to a directory."""
    archive = subprocess.run(["git", "archive", commit], cwd=checkout, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(tree, filter="data")


def add_kernels(checkout: Path, tree: Path) -> None:
    """Give the tree compiled kernels if the checkout has them: its own, or built ones if their source differs."""
    compiled = list((checkout / _KERNELS).glob("compiled.*.so"))
    if not compiled:
        return
    source = _KERNELS / "compiled.c"
    if (checkout / source).read_bytes() == (tree / source).read_bytes():
        for file in compiled:
            shutil.copy(file, tree / _KERNELS)
        return
    with tempfile.TemporaryDirectory() as wheels:
        build = ["wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, str(tree)]
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *build], check=True)
        with zipfile.ZipFile(next(Path(wheels).glob("*.whl"))) as wheel:
            for name in wheel.namelist():
                if Path(name).match("pyscheduler/kernels/compiled.*.so"):
                    wheel.extract(name, tree)


def _git(checkout: Path, *args: str) -> str | None:
    """Return the output of a git command, or None if it fails or there is no git."""
    try:
        return subprocess.run(["git", *args], cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


if __name__ == "__main__":
    main()
