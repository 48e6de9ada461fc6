"""The documentation as data: pages, code blocks, links and tables."""

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
    """A fenced block; `source` is the file that it repeats, "" if none."""

    page: str
    language: str
    source: str
    text: str


@cache
def text_of(page: str) -> str:
    """Return a page by its path from the root."""
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the fenced blocks of a page."""
    matches = _BLOCK.finditer(text_of(page))
    return tuple(Block(page, m["language"], m["source"] or "", m["text"]) for m in matches)


@cache
def prose(page: str) -> str:
    """Return a page without its blocks."""
    return _BLOCK.sub("", text_of(page))


def links(page: str) -> list[str]:
    """Return the targets of a page's links, without other sites."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]


def anchors(page: str) -> set[str]:
    """Return the anchors of a page: its headings, as GitHub converts them."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def words_in_code(text: str) -> list[str]:
    """Return the inline code of a text."""
    return _CODE.findall(text)


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of every table row under a heading, without the header."""
    section = re.split(r"^#+ ", text_of(page).split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def commands(page: str) -> list[str]:
    """Return the command lines of a page's shell blocks, without comments."""
    lines = (line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines())
    return [command for line in lines if (command := line.split("  #")[0].split(" # ")[0].strip())]
