"""Progress for GitHub Actions: groups, annotations, and text of an agent that cannot be a workflow command.

The runner reads commands (`::error::...`, `##[set-env ...]`) from everything that a step prints, stdout included, so an
agent could set outputs or hide secrets from masking. All text passes through `GithubStream`, which breaks what looks
like a command; only `command` writes one. The job summary is in `job_summary.py`.

Loaded in GitHub Actions only: the start of every other run does not pay for it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli.prompt.progress import Progress
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

# The runner ignores white space before `::`, and finds the older form anywhere in a line. A line may end with CR alone.
_COMMAND: Final = re.compile(r"(?m)(^|\r)(\s*)::")
_OLD_COMMAND: Final = "##["
_BREAK: Final = "\u200b"  # zero width space: it is not white space to the runner, and is not visible
_MESSAGE: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def defuse(text: str) -> str:
    """Return text in which no line is a workflow command; other lines are unchanged."""
    if "::" not in text and _OLD_COMMAND not in text:
        return text
    return _COMMAND.sub(rf"\1\2{_BREAK}::", text).replace(_OLD_COMMAND, f"##{_BREAK}[")


def defuse_output(data: bytes) -> bytes:
    """Do the same with what is written to stdout. JSON keeps its value."""
    if data.lstrip().startswith(b"{"):
        return data.replace(b"##[", b"#\\u0023[")
    return defuse(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def format_command(name: str, message: str, **properties: str) -> str:
    """Return a workflow command as one line."""
    given = ",".join(f"{key}={one_line(value).translate(_PROPERTY)}" for key, value in properties.items() if value)
    line = f"{name}{' ' if given else ''}{given}::{one_line(message).translate(_MESSAGE)}"
    return f"::{line.replace(_OLD_COMMAND, f'##{_BREAK}[')}\n"


class GithubStream:
    """A text stream of whole lines, none of which is a workflow command unless it was written by `command`."""

    def __init__(self, below: TextIO) -> None:
        self._below = below
        self._rest = ""

    @property
    def buffer(self) -> BinaryIO:
        return self._below.buffer

    @property
    def encoding(self) -> str:
        return self._below.encoding

    def write(self, text: str) -> int:
        lines, newline, rest = (self._rest + text).rpartition("\n")
        self._rest = rest
        if newline:
            self._below.write(defuse(lines + newline))
        return len(text)

    def command(self, name: str, message: str, **properties: str) -> None:
        """Write a workflow command on a line of its own."""
        self.finish()
        self._below.write(format_command(name, message, **properties))
        self._below.flush()

    def finish(self) -> None:
        """Write an unfinished line."""
        if self._rest:
            self.write("\n")
        self.flush()

    def flush(self) -> None:
        self._below.flush()

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._below.fileno()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


class GithubProgress(Progress):
    """Progress whose details are in groups that can be unfolded."""

    def __init__(self, stream: GithubStream, verbose: bool, *, root: str, shows_text: bool) -> None:
        super().__init__(stream, False, verbose, root=root, shows_text=shows_text)  # type: ignore[arg-type]  # a stream
        self._stream = stream

    def begin_details(self, title: str) -> None:
        self._stream.command("group", title)

    def end_details(self) -> None:
        self._stream.command("endgroup", "")

    def annotate(self, level: str, title: str, message: str, path: str = "") -> None:
        """Add an annotation, which the page of the workflow run shows."""
        self._end_thought()
        self._stream.command(level, message, title=title, file=self.short(path) if path else "")


def github_progress(verbose: bool, *, root: str) -> GithubProgress:
    """Return the progress of a run, and let everything that is written to stderr pass through its stream."""
    from dragoman.cli.masked_streams import mask_streams

    mask_streams()  # later it would not find the stream that is replaced here
    stream = GithubStream(sys.stderr)
    sys.stderr = stream
    return GithubProgress(stream, verbose, root=root, shows_text=verbose)
