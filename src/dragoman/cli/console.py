"""The two streams: stdout is data, stderr is everything else.

It decides where colour is allowed and how an error, a table and a JSON document look; it knows no verb.
"""

import os
import sys

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

BOLD = "1"
DIM = "2"
RED = "31"


def uses_colour(stream: "TextIO") -> bool:
    """Colour is for people: only a terminal gets it, unless NO_COLOR is set or the terminal cannot."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: "TextIO") -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if uses_colour(stream) else text


def write_error(message: str, hint: str = "") -> None:
    """One line what happened, one line what to do. Line breaks inside would look like a second error."""
    lines = [f"dragoman: {paint('error:', RED, sys.stderr)} {' '.join(message.split())}"]
    if hint:
        lines.append(f"{paint('hint:', BOLD, sys.stderr)} {' '.join(hint.split())}")
    sys.stderr.write("\n".join(lines) + "\n")


def write_table(header: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> None:
    """Columns for people; programs ask for JSON."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: "Sequence[str]") -> str:
        return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()

    sys.stdout.write(paint(line(header), BOLD, sys.stdout) + "\n")
    sys.stdout.writelines(line(row) + "\n" for row in rows)


def write_json(document: object) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
