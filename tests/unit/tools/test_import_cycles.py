"""The check for import cycles finds planted ones, also those for type checking only."""

from __future__ import annotations

from pathlib import Path

from tools.import_cycles import find_cycle, imports_of


def package(folder: Path, **files: str) -> Path:
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)
    return folder


def test_files_that_import_each_other_are_a_cycle(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    package(root, __init__="", a="from p.b import x\n", b="from p import c\n", c="if TYPE_CHECKING:\n    import p.a\n")
    cycle = find_cycle(imports_of(root))
    assert sorted(cycle[1:]) == ["p.a", "p.b", "p.c"]
    assert cycle[0] == cycle[-1]


def test_imports_that_point_down_are_none(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    package(root, __init__="", a="from p import b, c\n", b="from p.c import x\n", c="import os\n")
    assert find_cycle(imports_of(root)) == []
