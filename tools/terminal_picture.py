"""Picture of a terminal session as SVG: `make docs-picture` runs the command of `make run` and draws its output.

Seed and ports are fixed, so that a new picture differs where the program does. The picture needs no fonts or network:
each line has a fixed length, whatever the width of the reader's monospaced font.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PICTURE: Final = ROOT / "docs" / "make-run.svg"
PROMPT: Final = "$ make run"
COMMAND: Final = ("up", "--once", "--nodes", "4", "--apply", "manifests/examples")
FIXED: Final = ("--seed", "1", "--port", "8001", "--secure-port", "10259")
END: Final = "Keep it running"
"""Start of the part that the README repeats as text to copy."""
_ERASED: Final = re.compile(r"\d+ of \d+ pods? assigned to nodes\b")
"""Start of the progress lines, which a terminal shows in one place and erases."""

_COLUMN, _ROW, _MARGIN, _BAR = 8.4, 17, 16, 28
"""Width of a character, height of a line, space around the text, height of the title bar, in pixels."""
_STYLE: Final = """
text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d5dbe3; white-space: pre }
.prompt { fill: #7ee0a0; font-weight: bold } .window { fill: #161b22; stroke: #444c56 } .bar { fill: #2d333b }"""


def picture(lines: Sequence[str]) -> str:
    """Return an SVG document of a dark terminal with these lines; the first is the prompt with the command."""
    width = round(2 * _MARGIN + _COLUMN * max(map(len, lines)))
    height = _BAR + 2 * _MARGIN + _ROW * len(lines)
    title = escape(f"Terminal: {lines[0].removeprefix('$ ')}")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'{head} role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}\n</style>",
        f'<rect class="window" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<path class="bar" d="M1 {_BAR} v-19 q0 -8 8 -8 h{width - 18} q8 0 8 8 v19 z"/>',
        *(
            f'<circle cx="{18 + 18 * i}" cy="14" r="5" fill="{colour}"/>'
            for i, colour in enumerate(("#f47067", "#dcbd6b", "#6bc46d"))
        ),
        *(_line(i, line) for i, line in enumerate(lines) if line.strip()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _line(number: int, line: str) -> str:
    """Return a line without its indentation, which SVG viewers may collapse, at its column."""
    text = line.strip()
    x = _MARGIN + _COLUMN * (len(line) - len(line.lstrip()))
    y = _BAR + _MARGIN + _ROW * number + 12
    length = f'textLength="{_COLUMN * len(text):.1f}" lengthAdjust="spacingAndGlyphs"'
    css = "" if number else ' class="prompt"'
    return f'<text{css} x="{x:.1f}" y="{y}" {length} xml:space="preserve">{escape(text)}</text>'


def session() -> list[str]:
    """Run the command and return the prompt and what stays on a terminal, up to `END`. CalledProcessError."""
    program = Path(sys.executable).parent / "pyscheduler"
    done = subprocess.run([program, *COMMAND, *FIXED], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    lines = done.stdout.partition(END)[0].rstrip().splitlines()
    return [PROMPT, *(line for line in lines if not _ERASED.match(line))]


if __name__ == "__main__":
    PICTURE.write_text(picture(session()), encoding="utf-8")
