"""Hooks of the docs site: pages from the top folder, links to source files, and the API reference.

The pages are the same Markdown that repository browsers show. On the site README.md is the first page, links to
files that are no pages lead to the repository, and one reference page a module lists its public names.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from posixpath import normpath
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
TOP: Final = {
    "README.md": "index.md",
    **{name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")},
}
REFERENCES: Final = {"reference/api.md": "pyscheduler.api", "reference/testing.md": "pyscheduler.testing"}
_LINK: Final = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """List the decisions in the navigation."""
    decisions = [f"adr/{path.name}" for path in sorted((ROOT / "docs/adr").glob("*.md"))]
    config["nav"].append({"Decisions": decisions})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the top folder and the reference pages."""
    from mkdocs.structure.files import File

    for source, name in TOP.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for name, module in REFERENCES.items():
        files.append(File.generated(config, name, content=reference_page(module)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with its links as the site needs them."""
    source = next((top for top, name in TOP.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")
    pages = {file.src_uri for file in (*files.documentation_pages(), *files.media_files())}
    return _LINK.sub(lambda match: site_link(match, source, pages, config["repo_url"]), markdown)


def site_link(match: re.Match[str], source: str, pages: set[str], repository: str) -> str:
    """Return a link of the file `source` as the site needs it.

    `pages` are the pages and pictures of the site; the repository shows all other files.
    """
    target = normpath(f"{source.rpartition('/')[0] or '.'}/{match[1]}") if match[1] else source
    anchor = match[2] or ""
    page = TOP.get(target) or target.removeprefix("docs/")
    if page in pages and (target in TOP or target.startswith("docs/")):
        here = TOP.get(source) or source.removeprefix("docs/")
        up = "../" * here.count("/")
        return f"]({up}{page}{anchor})"
    if not (ROOT / target).exists():
        return match[0]  # reported as broken
    kind = "tree" if (ROOT / target).is_dir() else "blob"
    return f"]({repository}/{kind}/main/{target}{anchor})"


def reference_page(module: str) -> str:
    """Return the page that lists the public names of a module."""
    names = "\n\n".join(f"::: {module}.{name}" for name in sorted(importlib.import_module(module).__all__))
    return f"# {module}\n\n{importlib.import_module(module).__doc__}\n\n{names}\n"
