"""`make audit`: what we run on is what we pinned, as it was published, and not withdrawn.

- constraints.txt names one exact version of everything, and all that our packages need to run is in it;
- what is installed is that, and its files are those that its wheel listed (RECORD's digests);
- the registry still offers those versions: none is yanked. This takes the network; without it, it says so.
- pip-audit looks for known vulnerabilities, where it is installed and its service can be reached.
"""

from __future__ import annotations

import base64
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
OURS = ("pyscheduler", "pyscheduler-plugins")
TOOLS = ("pip", "setuptools", "wheel")
"""What a virtual environment comes with: it is not imported by anything of ours."""
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)")
_WAIT = 120.0
"""Seconds that the registry may take."""


def main() -> int:
    """0 if all is well; 1 with one line for each thing that is not."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins, problems = read(lines)
    needed = sorted(required(OURS))
    problems += [f"{name} is needed to run and is not in constraints.txt" for name in needed if name not in pins]
    installed: dict[str, Distribution] = {canonicalize_name(d.metadata["Name"]): d for d in distributions()}
    problems += differences(pins, installed)
    for name in sorted(set(installed) - set(OURS) - set(TOOLS)):
        problems += [f"{name}: {problem}" for problem in altered(installed[name])]
    print(f"{len(pins)} versions pinned, {len(needed)} of them needed to run, {len(installed)} packages installed")
    problems += _told_by(_registry, pins) + _told_by(_advisories, pins)
    for problem in problems:
        print(f"error: {problem}")
    return 1 if problems else 0


def read(lines: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """The versions by name, and what is wrong with lines of a constraints file."""
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
            problems.append(f"constraints.txt:{number}: {pinned['name']} is there twice")
        else:
            pins[canonicalize_name(pinned["name"])] = pinned["version"]
    return pins, problems


def required(roots: Iterable[str]) -> set[str]:
    """The names of all that some installed packages need to run, and what those need; without the packages."""
    roots = {canonicalize_name(name) for name in roots}
    found: set[str] = set()
    left = list(roots)
    while left:
        for name in _requirements(left.pop()):
            if name not in found and name not in roots:
                found.add(name)
                left.append(name)
    return found


def _requirements(name: str) -> Iterator[str]:
    try:
        stated = distribution(name).requires or ()
    except PackageNotFoundError:
        return  # it will be told of as not installed
    for text in stated:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def differences(pins: dict[str, str], installed: dict[str, Distribution]) -> list[str]:
    """How what is installed differs from what is pinned."""
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
    """The files of an installed package that are not as its wheel had them."""
    for file in found.files or ():
        if file.hash is None or file.hash.mode not in hashlib.algorithms_available:
            continue
        path = Path(str(file.locate()))
        if not path.is_file():
            yield f"{file} is missing"
            continue
        digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"{file} is not as it was published"


class Unreachable(Exception):
    """A check that cannot be made from here."""


def _told_by(check: Callable[[dict[str, str]], list[str]], pins: dict[str, str]) -> list[str]:
    """What a check finds wrong; one that cannot be made says so."""
    try:
        return check(pins)
    except Unreachable as why:
        print(f"SKIPPED: {why}")
        return []


def _registry(pins: dict[str, str]) -> list[str]:
    """What of the pinned versions has been withdrawn. Unreachable without a registry."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wanted = [f"{name}=={version}" for name, version in pins.items()]
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", str(report)]
        done = _run("pip", "--disable-pip-version-check", "--retries", "1", "install", *options, *wanted)
        if done.returncode:
            raise Unreachable(f"whether versions were withdrawn: {_last_line(done.stderr)}")
        offered = json.loads(report.read_text(encoding="utf-8"))["install"]
    print(f"{len(offered)} pinned versions are offered by the registry")
    return [f"{each['metadata']['name']} {each['metadata']['version']} was yanked" for each in offered if yanked(each)]


def yanked(offered: dict[str, object]) -> bool:
    """Whether an entry of pip's report is of a version that was withdrawn."""
    return bool(offered.get("is_yanked"))


def _advisories(pins: dict[str, str]) -> list[str]:
    """What pip-audit knows of the pinned versions. Unreachable where it is not installed, or not answered."""
    constraints = str(ROOT / "constraints.txt")
    done = _run("pip_audit", "--requirement", constraints, "--no-deps", "--disable-pip", "--progress-spinner", "off")
    if done.returncode == 0:
        print(f"no known vulnerability in {len(pins)} versions")
        return []
    found = [line for line in done.stdout.splitlines() if "==" in line or "PYSEC" in line or "GHSA" in line]
    if not found:
        raise Unreachable(f"known vulnerabilities: {_last_line(done.stderr)}")
    return found


def _run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=_WAIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{module} got no answer in {_WAIT:.0f} seconds") from None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no answer"


if __name__ == "__main__":
    sys.exit(main())
