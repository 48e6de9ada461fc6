"""The picture of a terminal session has the lines of the session, at their places, and needs nothing else."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.terminal_picture import PICTURE, picture

SESSION = ["$ make run", "A <cluster> & more", "", "  two columns  further"]


def texts(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"))


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name) or "nan")


def test_picture_has_the_text_of_each_line() -> None:
    assert [each.text for each in texts(picture(SESSION))] == [
        "$ make run",
        "A <cluster> & more",
        "two columns  further",
    ]


def test_empty_lines_and_indentation_take_their_room() -> None:
    first, second, last = texts(picture(SESSION))

    assert number(last, "y") - number(second, "y") == 2 * (number(second, "y") - number(first, "y"))
    assert number(last, "x") > number(first, "x") == number(second, "x")


def test_characters_have_one_width_in_all_lines_and_fit_into_the_window() -> None:
    svg = picture(SESSION)

    widths = {round(number(each, "textLength") / len(each.text or ""), 2) for each in texts(svg)}
    assert len(widths) == 1
    ends = [number(each, "x") + number(each, "textLength") for each in texts(svg)]
    assert max(ends) < number(ElementTree.fromstring(svg), "width")


def test_committed_picture_opens_without_network() -> None:
    svg = PICTURE.read_text(encoding="utf-8")

    assert not [link for link in ("href", "url(", "@import", "<script", "@font-face") if link in svg]
