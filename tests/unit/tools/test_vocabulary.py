"""The check of the field's language finds what it is for, and counts by package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import vocabulary
from tools.vocabulary import Package, ambiguous_classes, missing_words, package_of, read_code, read_text

CODE = Path("pyscheduler/core/x.py")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("# " + "no" + "body waits", 1, id="in a comment"),
        pytest.param("self._" + "to" + "ld = 1", 1, id="within a name"),
        pytest.param("class " + "As" + "kedFor: ...", 1, id="within a class name"),
        pytest.param("# the task is whole", 0, id="within another word"),
        pytest.param("return node_name", 0, id="none"),
    ],
)
def test_people_words_are_counted_also_within_identifiers(line: str, words: int) -> None:
    package = Package()
    read_text(package, CODE, line)
    assert len(package.words) == words


def test_a_riddle_and_a_metaphor_are_found() -> None:
    riddle = "Wh" + "ether it holds."  # in two parts, since this file is checked as well
    source = f'def f() -> None:\n    """{riddle}"""\n\nclass Bell:\n    """A bell."""\n'
    package = Package()
    read_code(package, CODE, ast.parse(source))
    assert (package.docstrings, len(package.riddles)) == (2, 1)
    assert package.denied == [f"{CODE}:4: Bell"]


def test_docstrings_of_attributes_count() -> None:
    package = Package()
    read_code(package, CODE, ast.parse("LIMIT = 1\n" + '"""' + "Wh" + 'at is too much."""\n'))
    assert (package.docstrings, len(package.riddles)) == (1, 1)


def test_a_class_name_for_two_things_is_found() -> None:
    files = ("pyscheduler/a.py", "plugins/pyscheduler_plugins/b.py", "plugins/tests/c.py")
    trees = {Path(file): ast.parse("class Page: ...") for file in files}
    assert ambiguous_classes(trees) == ["Page: pyscheduler/a.py:1, plugins/pyscheduler_plugins/b.py:1"]


def test_kubernetes_own_types_have_the_names_of_the_api() -> None:
    trees = {
        Path(f"pyscheduler/{name}.py"): ast.parse("class NodeAffinity: ...") for name in ("api/objects", "intree/a")
    }
    assert ambiguous_classes(trees) == []


def test_words_of_the_field_that_are_nowhere_are_found() -> None:
    words = vocabulary.WORDS["expected"]
    assert missing_words({CODE: "dry_run " + " ".join(word for word in words if word != "informer")}) == ["informer"]


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("pyscheduler/core/queue/queue.py", "pyscheduler/core"),
        ("pyscheduler/__main__.py", "pyscheduler"),
        ("tests/unit/core/test_x.py", "tests/unit"),
        ("bench/live.py", "bench"),
        ("README.md", "top level"),
    ],
)
def test_packages(path: str, package: str) -> None:
    assert package_of(Path(path)) == package
