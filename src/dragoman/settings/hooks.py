"""The members `hooks` and `after_edit` of a settings file: commands that run at certain moments of a turn.

Two forms are read. Ours: `{"before_tool": [{"matcher": "bash", "command": "check.sh", "timeout": 10}]}`; and the one
that Claude Code, Codex and Gemini CLI share, with their names of moments and a list `hooks` inside each entry. Whether
a project's entry may run is decided by the user's acceptance: see `effective.py`.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from dragoman.settings.acceptances import fingerprint
from dragoman.settings.documents import did_you_mean
from dragoman.workspace.wildcards import GlobPattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dragoman.settings.documents import Document

Moment: TypeAlias = Literal[
    "before_tool",
    "after_tool",
    "after_failed_tool",
    "prompt",
    "stop",
    "subagent_start",
    "subagent_stop",
    "notification",
]
MOMENTS: Final[tuple[Moment, ...]] = get_args(Moment)
_FOREIGN: Final[dict[str, Moment]] = {
    "PreToolUse": "before_tool",
    "BeforeTool": "before_tool",
    "PostToolUse": "after_tool",
    "PostToolUseFailure": "after_failed_tool",
    "AfterTool": "after_tool",
    "UserPromptSubmit": "prompt",
    "BeforeAgent": "prompt",
    "Stop": "stop",
    "AfterAgent": "stop",
    "SubagentStart": "subagent_start",
    "SubagentStop": "subagent_stop",
    "Notification": "notification",
}
_ALSO: Final[dict[str, Moment]] = {"AfterTool": "after_failed_tool"}
"""Names that stand for a second moment: Gemini CLI has one moment after a call, whether it worked or not."""
DEFAULT_SECONDS: Final = 60.0
MOST_SECONDS: Final = 600.0
# How a command names the project; both are in the environment of a hook.
_PROJECT: Final = re.compile(r"\$\{?(?:DRAGOMAN|CLAUDE)_PROJECT_DIR\b\}?")


class Hook(Struct, frozen=True):
    """A command for one moment."""

    moment: Moment
    command: str
    matcher: str = ""
    """A regular expression for the names of tools, or of subagents at their moments; if it is empty, all match."""
    timeout_seconds: float = DEFAULT_SECONDS
    event: str = ""
    """The name of the moment as the file spells it; a name of another program means that its names are expected."""

    def is_for(self, moment: Moment) -> bool:
        """Whether it runs at a moment."""
        return moment in (self.moment, _ALSO.get(self.event))

    @property
    def is_foreign(self) -> bool:
        """Whether the command expects the names of tools and arguments that Claude Code uses."""
        return self.event in _FOREIGN

    @property
    def lines(self) -> tuple[str, ...]:
        """The shell lines that it runs."""
        return (self.command,)

    @property
    def sha256(self) -> str:
        """The fingerprint of what the settings say about it."""
        return fingerprint(("hook", self.moment, self.matcher, self.command, str(self.timeout_seconds), self.event))

    @property
    def name(self) -> str:
        """How a proposal of a project is named when it is accepted: its moment and the start of its fingerprint."""
        return f"{self.moment}-{self.sha256[:8]}"


class EditCommand(Struct, frozen=True):
    """Commands for files that a tool has changed: a formatter and a check."""

    files: str
    """A glob for the path below the project, such as `*.py` or `src/**/*.ts`."""
    format: str = ""
    check: str = ""
    timeout_seconds: float = DEFAULT_SECONDS

    @property
    def lines(self) -> tuple[str, ...]:
        """The shell lines that it runs."""
        return tuple(filter(None, (self.format, self.check)))

    @property
    def sha256(self) -> str:
        """The fingerprint of what the settings say about it."""
        return fingerprint(("after_edit", self.files, self.format, self.check, str(self.timeout_seconds)))

    @property
    def name(self) -> str:
        """How a proposal of a project is named when it is accepted."""
        return f"after_edit-{self.sha256[:8]}"


def project_files(hook: Hook | EditCommand, root: Path) -> list[str]:
    """Return the files of a project that a hook of it names, relative to its root."""
    found = (os.path.relpath(path, root) for line in hook.lines for path in _named(line, str(root)))
    return list(dict.fromkeys(path for path in found if not path.startswith(os.pardir)))


def accepted_sha256(hook: Hook | EditCommand, root: Path) -> str:
    """Return the fingerprint by which a project's hook is accepted: what the settings say, and the files that it names.

    An agent that may edit the project could change such a file, which then runs outside of every sandbox. Blocks.
    """
    import hashlib

    contents: dict[str, str] = {}
    for path in project_files(hook, root):
        try:
            with open(root / path, "rb") as file:
                contents[path] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            contents[path] = f"cannot be read: {error.errno}"
    return fingerprint((hook.sha256,), contents) if contents else hook.sha256


def _named(line: str, root: str) -> Iterator[str]:
    """Yield the paths of regular files that the words of a shell line name."""
    words = shlex.shlex(_PROJECT.sub(lambda _: root, line), posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        found = list(words)
    except ValueError:  # a quotation mark without its end, which the shell refuses, too
        found = line.split()
    for word in found:
        path = os.path.normpath(os.path.join(root, word))
        if os.path.isfile(path):
            yield path


def read_hooks(document: Document, value: Any) -> tuple[Hook, ...]:
    """Read the member `hooks`. Raises: ConfigError."""
    if not isinstance(value, dict):
        raise document.error('hooks must be an object: {"before_tool": [{"command": "..."}]}', "hooks")
    found: list[Hook] = []
    for event, entries in value.items():
        moment = _FOREIGN.get(event, event)
        if moment not in MOMENTS:
            hint = did_you_mean(event, MOMENTS) or f"the moments are {', '.join(MOMENTS)}"
            raise document.error(f"{event!r} is not a moment for hooks; {hint}", "hooks", event)
        if not isinstance(entries, list):
            raise document.error(f'{event} must be a list: [{{"command": "..."}}]', "hooks", event)
        for index, entry in enumerate(entries):
            found += _read_entry(document, event, moment, entry, ("hooks", event, index))
    return tuple(found)


def _read_entry(document: Document, event: str, moment: Any, entry: Any, place: tuple[str | int, ...]) -> list[Hook]:
    if not isinstance(entry, dict):
        raise document.error('a hook must be an object: {"command": "..."}', *place)
    matcher = _text(document, entry, "matcher", place)
    matcher = "" if matcher == "*" else matcher
    try:
        re.compile(matcher)
    except re.error as error:
        raise document.error(f"matcher must be a regular expression: {error}", *place, "matcher") from None
    inner = entry.get("hooks")
    if inner is None:
        return [_hook(document, event, moment, matcher, entry, place)]
    if not isinstance(inner, list):
        raise document.error('hooks must be a list: [{"type": "command", "command": "..."}]', *place, "hooks")
    return [
        _hook(document, event, moment, matcher, entry, (*place, "hooks", index)) for index, entry in enumerate(inner)
    ]


def _hook(
    document: Document, event: str, moment: Moment, matcher: str, entry: Any, place: tuple[str | int, ...]
) -> Hook:
    if not isinstance(entry, dict) or entry.get("type", "command") != "command":
        raise document.error('only hooks of the type "command" can be run', *place)
    command = _text(document, entry, "command", place)
    if not command.strip():
        raise document.error('a hook needs a command: {"command": "check.sh"}', *place)
    return Hook(moment, command, matcher, _seconds(document, entry, place), event)


def read_edit_commands(document: Document, value: Any) -> tuple[EditCommand, ...]:
    """Read the member `after_edit`. Raises: ConfigError."""
    example = '[{"files": "*.py", "format": "ruff format {file}", "check": "ruff check {file}"}]'
    if not isinstance(value, list):
        raise document.error(f"after_edit must be a list: {example}", "after_edit")
    found = []
    for index, entry in enumerate(value):
        place = ("after_edit", index)
        if not isinstance(entry, dict):
            raise document.error(f"an entry must be an object: {example}", *place)
        for name in entry:
            if name not in ("files", "format", "check", "timeout"):
                raise document.error(f"{name!r} is unknown; use files, format, check and timeout", *place, name)
        files, format, check = (_text(document, entry, name, place) for name in ("files", "format", "check"))
        if not files or not (format or check):
            raise document.error(f"an entry needs files, and format or check: {example}", *place)
        try:
            GlobPattern(files)
        except ValueError as error:
            raise document.error(str(error), *place, "files") from None
        for name, line in (("format", format), ("check", check)):
            if line and "{file}" not in line:
                raise document.error(f"{name} must contain {{file}}, which stands for the changed file", *place, name)
        found.append(EditCommand(files, format, check, _seconds(document, entry, place)))
    return tuple(found)


def _text(document: Document, entry: dict[str, Any], name: str, place: tuple[str | int, ...]) -> str:
    value = entry.get(name, "")
    if not isinstance(value, str):
        raise document.error(f"{name} must be a string", *place, name)
    return value


def _seconds(document: Document, entry: dict[str, Any], place: tuple[str | int, ...]) -> float:
    value = entry.get("timeout", DEFAULT_SECONDS)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_SECONDS:
        raise document.error(f"timeout must be a number of seconds, at most {MOST_SECONDS:g}", *place, "timeout")
    return float(value)
