"""Any command-line tool as an agent: every prompt is one run of it, in the folder of the session.

Standard output is the answer. Standard error is shown as a thought: tools write their progress and their log there,
which users want to see while they wait and which does not belong to the answer; a notice for each line would be noise.
If the tool fails, the end of it is the error's text too. Files that changed while it ran are tool calls with diffs. The
tool was named by the user who wraps it, so that permission for it is not asked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.command_line.child_output import ChildOutput
from dragoman.adapters.command_line.snapshot import MOST_ENTRIES, find_changes, take_snapshot
from dragoman.adapters.values import AdapterError
from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.text.terminal import plain
from dragoman.uistream import chunks as c
from dragoman.uistream.display import FileDiff, Location, ToolDisplay, ToolOutput, with_display

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.command_line.snapshot import Snapshot
    from dragoman.adapters.context import PromptContext
    from dragoman.uistream.display import Kind

_log = logging.getLogger("dragoman.adapters")

_ANSWER_LETTERS: Final = 4 << 20  # of stdout in one turn: a session is stored, and sent again when it is loaded
_THOUGHT_LETTERS: Final = 256 << 10  # of stderr
_TAIL_BYTES: Final = 4000  # of stderr in an error, at most
_TAIL_LINES: Final = 20
_ARGUMENT_BYTES: Final = 128 << 10  # Linux allows no longer argument, its final NUL included
# Python programs hold their output back when it is not a terminal; tools in other languages decide themselves.
_ENVIRONMENT: Final = {"PYTHONUNBUFFERED": "1"}


class CommandAdapter(Adapter):
    """A program and its arguments.

    Args:
        words: the command line. `{prompt}`, `{cwd}` and `{session}` in arguments are replaced; without `{prompt}`, the
            prompt is passed to the program's standard input. No shell is involved.

    Raises:
        ConfigError: the program was not found.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = checked(words)
        self._has_argument = any(PROMPT in word for word in words)
        self.name = name_of(self._words)
        self.title = self.name

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        """Run the program once. Raises: AdapterError if it fails; ConfigError if it cannot be started."""
        argv, stdin = self._prepared(ctx)
        before = await asyncio.to_thread(take_snapshot, ctx.cwd)
        environment = {name: value for name, value in _ENVIRONMENT.items() if name not in os.environ}
        child = ChildOutput(argv, ctx.cwd, environment, stdin)
        shown = _ShownOutput()
        try:
            while (piece := await child.next_piece()) is not None:
                for chunk in shown.feed(piece.stream, piece.data):
                    yield chunk
            for chunk in shown.finish():
                yield chunk
            code = await child.exit_code()
        except (asyncio.CancelledError, GeneratorExit):
            await child.close()
            await _show_after_cancel(ctx, before)
            raise
        finally:
            await child.close()
        has_changes = False
        async for chunk in self._changed(ctx, before):
            has_changes = True
            yield chunk
        if code != 0:
            raise AdapterError(self._failure(code, child.stderr_tail(_TAIL_BYTES)))
        if shown.is_cut or child.lost_bytes:
            await ctx.notice(
                "The output is not complete", f"{self.title} wrote more than can be shown.", severity="warning"
            )
        elif not shown.has_answer and not has_changes:
            await ctx.notice(f"{self.title} ended without output", "Its exit code is 0, so it reports success.")

    def _prepared(self, ctx: PromptContext) -> tuple[list[str], bytes]:
        """Return the arguments and the input of a run. Raises: AdapterError."""
        text = prompt_text(ctx.blocks)
        argv = filled_in(self._words, {"prompt": text, "cwd": ctx.cwd, "session": ctx.session_id})
        if any(len(word.encode("utf-8", "surrogateescape")) >= _ARGUMENT_BYTES for word in argv):
            raise AdapterError(
                f"the prompt is too long for an argument of {self.title}: the system allows {_ARGUMENT_BYTES} bytes. "
                "Shorten it, or wrap the command without {prompt}, which passes it on standard input"
            )
        return argv, b"" if self._has_argument else text.encode()

    async def _changed(self, ctx: PromptContext, before: Snapshot) -> AsyncIterator[c.Chunk]:
        """Yield the files that changed, as tool calls; a notice, once for a session, if they cannot be found."""
        calls = await asyncio.to_thread(_calls, before)
        if calls is None and ctx.session.state is None:
            ctx.session.state = "the notice was shown"
            await ctx.notice(
                "Changed files are not shown",
                f"{ctx.cwd} has more than {MOST_ENTRIES} files and folders. Open a smaller folder to see changes.",
            )
        for chunk in calls or ():
            yield chunk

    def _failure(self, code: int | None, tail: str) -> str:
        if code is None:
            how = "ended, and its exit code is not known"
        elif code < 0:
            how = f"was ended by the signal {_signal_name(-code)}"
        else:
            how = f"failed with exit code {code}"
        tail = "\n".join(plain(tail).strip().split("\n")[-_TAIL_LINES:])
        return f"{self.title} {how}:\n{tail}" if tail else f"{self.title} {how}; it wrote nothing to standard error"


class _ShownOutput:
    """The chunks for what a program writes: text for stdout, thoughts for stderr."""

    def __init__(self) -> None:
        self._texts = {"stdout": OutputText(_ANSWER_LETTERS), "stderr": OutputText(_THOUGHT_LETTERS)}
        self._thoughts = 0
        self._is_thinking = False
        self.has_answer = False

    @property
    def is_cut(self) -> bool:
        return any(text.is_cut for text in self._texts.values())

    def feed(self, stream: Literal["stdout", "stderr"], data: bytes) -> Iterator[Yielded]:
        yield from self._show(stream, self._texts[stream].feed(data))

    def finish(self) -> Iterator[Yielded]:
        for stream, text in self._texts.items():
            yield from self._show(stream, text.finish())
        yield from self._end_thought()

    def _show(self, stream: str, text: str) -> Iterator[Yielded]:
        if not text:
            return
        if stream == "stdout":
            yield from self._end_thought()
            self.has_answer = True
            yield text
            return
        if not self._is_thinking:
            self._is_thinking = True
            self._thoughts += 1
            yield c.ReasoningStart(f"stderr_{self._thoughts}")
        yield c.ReasoningDelta(f"stderr_{self._thoughts}", text)

    def _end_thought(self) -> Iterator[Yielded]:
        if self._is_thinking:
            self._is_thinking = False
            yield c.ReasoningEnd(f"stderr_{self._thoughts}")


async def _show_after_cancel(ctx: PromptContext, before: Snapshot) -> None:
    """Show the files that a cancelled tool has changed already."""
    try:
        for chunk in await asyncio.to_thread(_calls, before) or ():
            await ctx.emit(chunk)
    except Exception as error:  # the client is gone, or the turn has ended without waiting
        _log.debug("changed files could not be shown", exc_info=error)


def _calls(before: Snapshot) -> list[c.Chunk] | None:
    """Make tool calls about what changed since the snapshot; None if that cannot be found."""
    changes = find_changes(before)
    if changes is None:
        return None
    written = [
        FileDiff(change.path, change.before, change.after) for change in changes.shown if change.after is not None
    ]
    deleted = [FileDiff(change.path, change.before, "") for change in changes.shown if change.after is None]
    chunks: list[c.Chunk] = []
    if written:
        chunks += _call("changed_files", "edit", f"Changed {_files(len(written))}", _output(before.root, written))
    if deleted:
        chunks += _call("deleted_files", "delete", f"Deleted {_files(len(deleted))}", _output(before.root, deleted))
    if changes.unshown:
        lines = [
            f"{os.path.relpath(change.path, before.root)}: {change.happened} ({change.why})"
            for change in changes.unshown
        ]
        output = ToolOutput("\n".join(lines), locations=tuple(Location(change.path) for change in changes.unshown))
        title = f"{_files(len(changes.unshown))} changed, not shown as text"
        chunks += _call("other_files", "edit", title, output)
    return chunks


def _output(root: str, diffs: Sequence[FileDiff]) -> ToolOutput:
    names = "\n".join(os.path.relpath(diff.path, root) for diff in diffs)
    return ToolOutput(names, tuple(diffs), tuple(Location(diff.path) for diff in diffs))


def _call(name: str, kind: Kind, title: str, output: ToolOutput) -> Iterator[c.Chunk]:
    """Yield a call that is over, with its files: a client that copies files before a call would be late."""
    call_id = f"call_{os.urandom(8).hex()}"
    data: Any = msgspec.to_builtins(output)
    yield with_display(c.ToolInputAvailable(call_id, name, {}, dynamic=True), title, ToolDisplay(kind))
    yield c.ToolOutputAvailable(call_id, data, dynamic=True)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# The beginning of an escape sequence, or a carriage return whose newline may follow, at the end of a piece.
_UNFINISHED: Final = re.compile(
    r"""
    (?:
      (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*\x1b?  # a string without its end
    | (?:\x1b\[|\x9b)[0-?]*[ -/]*                                             # CSI
    | \x1b[ -/]*
    | \r
    )\Z
    """,
    re.VERBOSE,
)
_HELD: Final = 4096  # characters of an unfinished sequence; a longer one is not a sequence, and is shown


class OutputText:
    """The bytes of one stream as text that is safe to show, at most `limit` characters of it.

    Accepts pieces of any size: a character or an escape sequence that is split in two is joined again. Unlike
    `text/output_lines.py` it does not wait for the end of a line: tools that stream an answer write single words.
    """

    def __init__(self, limit: int) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self._left = limit
        self.is_cut = False
        """Whether something was left out, because there was too much."""

    def feed(self, data: bytes) -> str:
        """Return the text of this piece, as far as it is complete."""
        text = self._held + self._decode(data)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _HELD))
        start = len(text) if unfinished is None else unfinished.start()
        self._held = text[start:]
        return self._within(plain(text[:start]))

    def finish(self) -> str:
        """Return the rest."""
        text, self._held = self._held + self._decode(b"", True), ""
        return self._within(plain(text))

    def _within(self, text: str) -> str:
        shown = text[: self._left]
        self._left -= len(shown)
        self.is_cut = self.is_cut or len(shown) < len(text)
        return shown


PROMPT: Final = "{prompt}"
_PLACEHOLDER: Final = re.compile(r"\{(prompt|cwd|session)\}")
# Programs whose first argument says what they run, so that each wrapped script has a name of its own.
_RUNNER: Final = re.compile(r"(python|pypy|node|ruby|perl|bash|sh|deno|bun|npx|uvx|uv|pipx)[\d.]*")
_SCRIPT: Final = re.compile(r"[\w@+./-]{1,200}")


def prompt_text(blocks: Iterable[v1.ContentBlock]) -> str:
    """Return a prompt for a program: files are named by their paths, embedded texts are included, images are not."""
    pieces: list[str] = []
    for block in blocks:
        match block:
            case v1.TextContent():
                pieces.append(block.text)
            case v1.ResourceLink():
                pieces.append(_place(block.uri))
            case v1.EmbeddedResource(resource=v1.TextResourceContents() as contents):
                pieces.append(f'\n<file path="{_place(contents.uri)}">\n{contents.text}\n</file>\n')
            case v1.EmbeddedResource():
                pieces.append(_place(block.resource.uri))
    return "".join(pieces).encode("utf-8", "replace").decode()


def filled_in(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the words with placeholders replaced, each still one argument. A value is never looked at again."""
    return [_PLACEHOLDER.sub(lambda found: values[found[1]].replace("\0", ""), word) for word in words]


def checked(words: Sequence[str]) -> list[str]:
    """Return the words with the program found: one named by a path is looked for from the current folder.

    Raises: ConfigError.
    """
    if not words or not words[0]:
        raise ConfigError("the command is empty; give the program and its arguments")
    program = words[0]
    if _PLACEHOLDER.search(program):
        raise ConfigError(f"the program cannot be {program!r}; name one, and use {{prompt}} in its arguments")
    if os.sep in program:
        program = os.path.abspath(program)
    if shutil.which(program) is None:
        why = "is not executable" if os.path.isfile(program) else "was not found"
        raise ConfigError(f"the program {words[0]!r} {why}; install it, or give the path of an executable file")
    return [program, *words[1:]]


def name_of(words: Sequence[str]) -> str:
    """Return a name for the tool: the program's, and what it runs if it is an interpreter or a launcher."""
    program = os.path.basename(words[0])
    if _RUNNER.fullmatch(program):
        for word in words[1:]:
            if not word.startswith("-"):
                if _SCRIPT.fullmatch(word):
                    return f"{program}-{os.path.splitext(os.path.basename(word))[0] or word}"
                break
    return program


def _place(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri
