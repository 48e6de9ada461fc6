"""Texts of plugins and tenants in a form that can be written: encodable in UTF-8, and available for any object."""

from __future__ import annotations

from collections.abc import Callable


def encodable(text: str) -> str:
    """Return the text as a plain str, with a "?" for each lone surrogate, which UTF-8 cannot encode.

    `os.fsdecode` returns such texts for file names in another encoding.
    """
    if type(text) is str and text.isascii():
        return text
    return str.encode(text, errors="replace").decode()


def text_of(value: object, convert: Callable[[object], str] = str) -> str:
    """Return `str(value)`, or the result of another conversion such as `repr`, in encodable form.

    If the conversion fails, as that of an exception with a broken `__str__` does, the text is that of Python's
    tracebacks: `<KeyError str() failed>`.
    """
    try:
        return encodable(convert(value))
    except BaseException:  # as in `traceback`: even SystemExit is only a text that is not available
        return f"<{type(value).__name__} {convert.__name__}() failed>"
