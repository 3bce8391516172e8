"""Writing to the two streams: stdout is data, stderr is everything else.

Decides where colour is allowed and how an error, a note, a table and a JSON document look. Everything written here
passes through `dragoman.text.terminal`, so that text from an agent, a file or the network cannot act on the terminal;
`masked_streams.py` does the same for everything else that is printed.
"""

import os
import sys
from contextlib import contextmanager

from dragoman.text.colour import BOLD, RED, YELLOW, Painter

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO


def uses_colour(stream: "TextIO") -> bool:
    """Return whether to write colours: only to a terminal that can show them, and not if NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: "TextIO") -> str:
    """Colour text that is safe already, if the stream shows colours."""
    return Painter(uses_colour(stream))(text, style)


def write_error(message: str, hint: str = "") -> None:
    """Write an error: one line for what happened, one for what to do. A line break would look like a second error."""
    from dragoman.text.terminal import sentence

    lines = [f"dragoman: {paint('error:', RED, sys.stderr)} {sentence(message)}"]
    if hint:
        lines.append(f"{paint('hint:', BOLD, sys.stderr)} {sentence(hint)}")
    sys.stderr.write("\n".join(lines) + "\n")


def write_note(text: str) -> None:
    """Write one line about what happens to stderr, at once."""
    from dragoman.text.terminal import one_line

    sys.stderr.write(f"dragoman: {one_line(text)}\n")
    sys.stderr.flush()


def write_warning(text: str) -> None:
    """Write one line to stderr that must not be overlooked, at once."""
    from dragoman.text.terminal import one_line

    sys.stderr.write(f"dragoman: {paint('warning: ' + one_line(text), YELLOW, sys.stderr)}\n")
    sys.stderr.flush()


def write_table(header: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> None:
    """Write columns to stdout, for people; programs ask for JSON."""
    from dragoman.text.terminal import cells, fit, one_line

    shown = [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(cells, column)) for column in zip(header, *shown, strict=True)]

    def line(row: "Sequence[str]") -> str:
        return "  ".join(map(fit, row, widths)).rstrip()

    sys.stdout.write(paint(line(header), BOLD, sys.stdout) + "\n")
    sys.stdout.writelines(line(row) + "\n" for row in shown)


def write_json(document: object) -> None:
    """Write one JSON document to stdout, indented."""
    sys.stdout.write(json_of(document, indent=2) + "\n")


def json_of(document: object, *, indent: int = 0) -> str:
    """Return a value as JSON for people and pipes: on one line, or with `indent` spaces for each level.

    Everything of this program that prints JSON takes it from here or from `json_text`.
    """
    import msgspec

    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:  # the name of a file that is not UTF-8: half characters, which are escaped
        import json

        return json.dumps(msgspec.to_builtins(document, str_keys=True), indent=indent or None)
    return json_text(msgspec.json.format(data, indent=indent) if indent else data)


def json_text(data: bytes | str) -> str:
    """Return JSON as it is to be printed: what is acted on or not shown is escaped, and the value stays the same."""
    from dragoman.text.terminal import escape_json

    return escape_json(data if isinstance(data, str) else data.decode(errors="replace"))


@contextmanager
def shown_log(write: "Callable[[str], object]" = write_note) -> "Iterator[None]":
    """Write each warning that the library logs as a line, while entered; its text may come from an agent."""
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(f"{record.levelname.lower()}: {record.getMessage()}")
            if record.exc_info and os.environ.get("DRAGOMAN_DEBUG"):
                from dragoman.text.terminal import plain

                sys.stderr.write(plain(logging.Formatter().formatException(record.exc_info)) + "\n")

    logger, handler = logging.getLogger("dragoman"), Lines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
