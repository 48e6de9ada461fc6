"""The documentation as data: pages, code blocks, links and tables, so that tests can hold each to its word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGES = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for path in (
            *(
                ROOT / name
                for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
            ),
            *(ROOT / "docs").rglob("*.md"),
            ROOT / "plugins" / "README.md",
        )
    )
)

_BLOCK = re.compile(r"(?:<!-- (?P<source>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `source` is the file that it says it repeats, "" if none."""

    page: str
    language: str
    source: str
    text: str


@cache
def text_of(page: str) -> str:
    """A page, named by its path from the root."""
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """The fenced blocks of a page."""
    found = _BLOCK.finditer(text_of(page))
    return tuple(Block(page, m["language"], m["source"] or "", m["text"]) for m in found)


@cache
def prose(page: str) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", text_of(page))


def links(page: str) -> list[str]:
    """The targets of a page's links, those to other sites left out."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]


def anchors(page: str) -> set[str]:
    """What `#…` may name on a page: its headings, as GitHub writes them."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def words_in_code(text: str) -> list[str]:
    """What stands between single backticks."""
    return _CODE.findall(text)


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """The cells of every table row under a heading, without the table's head."""
    section = re.split(r"^#+ ", text_of(page).split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def commands(page: str) -> list[str]:
    """The command lines of a page's shell blocks, without their comments."""
    lines = (line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines())
    return [command for line in lines if (command := line.split("  #")[0].split(" # ")[0].strip())]
