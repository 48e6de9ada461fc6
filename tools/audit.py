"""`make audit`: dependencies are pinned, installed as pinned, unmodified and not withdrawn.

- constraints.txt pins each dependency to one version and covers all runtime requirements of our packages.
- Installed packages have the pinned versions, and their files match the digests of their wheels (RECORD).
- The registry still offers these versions: none is yanked. Skipped without network access.
- pip-audit reports known vulnerabilities. Skipped if it is not installed or its service is unreachable.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
OURS = ("pyscheduler",)
TOOLS = ("pip", "setuptools", "wheel")
"""Packages that every virtual environment contains; our packages do not import them."""
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)")
_WAIT = 120.0
"""Timeout of the registry in seconds."""


def main() -> int:
    """Print a line for each problem. Return 1 if there is one, otherwise 0."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins, problems = read(lines)
    requirements = sorted(required(OURS))
    problems += [
        f"{name} is a runtime requirement but not in constraints.txt" for name in requirements if name not in pins
    ]
    installed: dict[str, Distribution] = {canonicalize_name(d.metadata["Name"]): d for d in distributions()}
    problems += differences(pins, installed)
    for name in sorted(set(installed) - set(OURS) - set(TOOLS)):
        problems += [f"{name}: {problem}" for problem in altered(installed[name])]
    summary = f"{len(pins)} versions pinned, {len(requirements)} of them runtime requirements"
    print(f"{summary}, {len(installed)} packages installed")
    problems += _run_check(_registry, pins) + _run_check(_advisories, pins)
    for problem in problems:
        print(f"error: {problem}")
    return 1 if problems else 0


def read(lines: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the pinned versions by package name, and the problems of a constraints file."""
    pins: dict[str, str] = {}
    problems = []
    for number, line in enumerate(lines, 1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        pinned = _PINNED.fullmatch(text)
        if pinned is None:
            problems.append(f"constraints.txt:{number}: {text!r} is not NAME==VERSION")
        elif canonicalize_name(pinned["name"]) in pins:
            problems.append(f"constraints.txt:{number}: {pinned['name']} is listed twice")
        else:
            pins[canonicalize_name(pinned["name"])] = pinned["version"]
    return pins, problems


def required(roots: Iterable[str]) -> set[str]:
    """Return the names of the transitive runtime requirements of installed packages, without these packages."""
    roots = {canonicalize_name(name) for name in roots}
    names: set[str] = set()
    pending = list(roots)
    while pending:
        for name in _requirements(pending.pop()):
            if name not in names and name not in roots:
                names.add(name)
                pending.append(name)
    return names


def _requirements(name: str) -> Iterator[str]:
    try:
        stated = distribution(name).requires or ()
    except PackageNotFoundError:
        return  # reported as not installed elsewhere
    for text in stated:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def differences(pins: dict[str, str], installed: dict[str, Distribution]) -> list[str]:
    """Return the differences between installed and pinned versions."""
    problems = []
    for name, found in sorted(installed.items()):
        if name in OURS or name in TOOLS:
            continue
        wanted = pins.get(name)
        if wanted is None:
            problems.append(f"{name} {found.version} is installed and not pinned")
        elif found.version != wanted:
            problems.append(f"{name} {found.version} is installed, {wanted} is pinned")
    return problems


def altered(found: Distribution) -> Iterator[str]:
    """Yield the files of an installed package that differ from its wheel."""
    # Not `found.files`: from Python 3.12 on, it leaves out missing files.
    for file, recorded, _ in csv.reader((found.read_text("RECORD") or "").splitlines()):
        algorithm, _, value = recorded.partition("=")
        if algorithm not in hashlib.algorithms_available:
            continue
        path = Path(str(found.locate_file(file)))
        if not path.is_file():
            yield f"{file} is missing"
            continue
        digest = hashlib.new(algorithm, path.read_bytes()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != value:
            yield f"{file} differs from its wheel"


class Unreachable(Exception):
    """The check is not possible in this environment."""


def _run_check(check: Callable[[dict[str, str]], list[str]], pins: dict[str, str]) -> list[str]:
    """Return the problems that a check finds; print a line and return none if it is not possible."""
    try:
        return check(pins)
    except Unreachable as why:
        print(f"SKIPPED: {why}")
        return []


def _registry(pins: dict[str, str]) -> list[str]:
    """Return the pinned versions that are yanked. Unreachable without a registry."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wanted = [f"{name}=={version}" for name, version in pins.items()]
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", str(report)]
        done = _run("pip", "--disable-pip-version-check", "--retries", "1", "install", *options, *wanted)
        if done.returncode:
            raise Unreachable(f"check for yanked versions:  {_last_line(done.stderr)}")
        offered = json.loads(report.read_text(encoding="utf-8"))["install"]
    print(f"{len(offered)} pinned versions are offered by the registry")
    return [f"{each['metadata']['name']} {each['metadata']['version']} was yanked" for each in offered if yanked(each)]


def yanked(offered: dict[str, object]) -> bool:
    """Return True if an entry of pip's report is a yanked version."""
    return bool(offered.get("is_yanked"))


def _advisories(pins: dict[str, str]) -> list[str]:
    """Return the known vulnerabilities of the pinned versions. Unreachable if pip-audit or its service is missing."""
    constraints = str(ROOT / "constraints.txt")
    done = _run("pip_audit", "--requirement", constraints, "--no-deps", "--disable-pip", "--progress-spinner", "off")
    if done.returncode == 0:
        print(f"no known vulnerability in {len(pins)} versions")
        return []
    found = [line for line in done.stdout.splitlines() if "==" in line or "PYSEC" in line or "GHSA" in line]
    if not found:
        raise Unreachable(f"check for known vulnerabilities: {_last_line(done.stderr)}")
    return found


def _run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=_WAIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{module} timed out after {_WAIT:.0f} seconds") from None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


if __name__ == "__main__":
    sys.exit(main())
