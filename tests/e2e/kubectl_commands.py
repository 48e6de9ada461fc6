"""The table of kubectl commands in docs/embedded.md: the commands, and their output without names and times."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.e2e.kubectl import run_kubectl
from tests.e2e.plane import Plane

RECORDED = Path(__file__).with_name("kubectl_commands.yaml")
_REPLACED = (
    (r"\b10(?:\.\d{1,3}){3}\b", "IP"),
    (r"\b([a-z]+(?:-[bcdfghjklmnpqrstvwxz2456789]{8,10}))-[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1-POD"),
    (r"\b([a-z]+)-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", r"\1-HASH"),
    (r"\b([a-z]+)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1-POD"),
    (r"(?<=\s)(?:\d+[smhd])+(?=\s|\)|$)", "AGE"),
    (r" from NS namespace", ""),
    (r"[ \t]+", " "),
)


@dataclass(frozen=True)
class Command:
    """A command of the table. `last_line` if only the end of its output is the same each time."""

    words: str
    output: str = ""
    fails: bool = False
    last_line: bool = False
    embedded_only: bool = False


def commands() -> Iterator[Command]:
    """Yield the commands in the order in which they are run."""
    for each in yaml.safe_load(RECORDED.read_text(encoding="utf-8")):
        yield Command(**each)


async def outcome(plane: Plane, namespace: str, command: Command) -> tuple[bool, str]:
    """Run a command; return True if it failed, and its normalized output."""
    words = shlex.split(command.words.replace("NS", namespace))
    code, output = await run_kubectl(plane, ("-n", namespace, *words))
    return code != 0, normalized(output, namespace, last_line=command.last_line)


def normalized(output: str, namespace: str, *, last_line: bool = False) -> str:
    """Return an output with placeholders for names, addresses and times, and its lines of equal words sorted."""
    text = output.replace(namespace, "NS")
    for pattern, placeholder in _REPLACED:
        text = re.sub(pattern, placeholder, text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Warning:")]
    return "\n".join(lines[-1:] if last_line else lines)


def result(command: Command) -> str:
    """Return the cell of the table: the last line of the output."""
    return (command.output.splitlines() or ["no output"])[-1].replace("|", "\\|")
