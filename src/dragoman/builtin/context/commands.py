"""Slash commands: prompts that begin with `/NAME`.

Owns which commands exist, how a prompt names one, how a template is expanded, and what the agent's own commands do. A
template is only text for the model: it runs nothing and permits nothing, and a project's template is marked as such.
Blocks while it reads files.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import UNSET, Struct

from dragoman.builtin.context.history import CLEAR, COMMAND
from dragoman.builtin.models.model import Model, StepEnd
from dragoman.builtin.modes import MODES
from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.settings.project import PROJECT_FOLDER, find_project
from dragoman.uistream import chunks as c
from dragoman.workspace import FileLimits, Workspace, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from dragoman.builtin.models.model import ModelRequest
    from dragoman.builtin.session import OpenSession

_log = logging.getLogger("dragoman.builtin")

FOLDER: Final = "commands"
_MOST: Final = 100  # longer menus are not read to their end
_LARGEST_BYTES: Final = 64 * 1024
_DESCRIPTION_CHARACTERS: Final = 120
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# A path such as /etc/hosts is not a command: its name contains another slash.
_CALL: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?:\s+(.*))?", re.DOTALL)
_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")

_REVIEW: Final = """\
Review $ARGUMENTS. If nothing is named here, review what is not committed yet (git status, git diff, git diff --staged);
if everything is committed, the last commit.

Read the changed code in its surroundings. Report what is wrong or likely to break, most serious first, each with file
and line, why it is wrong, and what to do instead. Leave out what is a matter of taste. If there is nothing, say so.
Change nothing."""


class Command(Struct, frozen=True):
    """One command. Without a body it is one of the agent's own, which acts by itself."""

    name: str
    description: str
    hint: str = ""
    body: str | None = None
    source: Literal["agent", "user", "project"] = "agent"

    def expand(self, arguments: str) -> str:
        """Expand the template: `$1` to `$9` are single arguments, `$ARGUMENTS` is all of them."""
        body = self.body or ""
        if not _PLACE.search(body):
            return f"{body}\n\n{arguments}" if arguments else body
        words = _words(arguments)

        def fill(place: re.Match[str]) -> str:
            if place[1] == "ARGUMENTS":
                return arguments
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        # In one pass, so that an argument is not expanded again.
        return _PLACE.sub(fill, body)


class Invocation(Struct, frozen=True):
    """A prompt that names a command; `command` is None if there is none of that name."""

    name: str
    arguments: str
    command: Command | None

    @property
    def prompt(self) -> str | None:
        """The text for the model; None if the agent answers by itself."""
        if self.command is None or self.command.body is None:
            return None
        return self.command.expand(self.arguments)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata stored with the message. It holds the expanded text, because the template may change later."""
        prompt = self.prompt
        return {COMMAND: {"name": self.name} if prompt is None else {"name": self.name, "prompt": prompt}}


TURN_COMMANDS: Final = frozenset({"compact", "context"})
"""Commands that `window/commands.py` runs, with the turn and its model."""
OWN: Final = (
    Command(CLEAR, "Let the model forget the conversation; it stays stored and visible"),
    Command("compact", "Replace the older part of the conversation by a summary", "what to keep in particular"),
    Command("context", "Show what fills the context window"),
    Command("help", "Show the commands there are"),
    Command("mode", "Show or change how much is done without asking", "|".join(MODES)),
    Command("model", "Show or change the model", "PROVIDER:NAME"),
    Command("review", "Review changes that are not committed yet, or what you name", "what to review", _REVIEW),
)


def read_commands(cwd: str, config_dir: Path) -> dict[str, Command]:
    """Return every command for work in `cwd`.

    A template never replaces a command of the agent, and a project's template never one of the user: it is named
    `project:NAME` then.
    """
    found = {command.name: command for command in OWN}
    for command in _templates(config_dir / FOLDER, "user"):
        if command.name in found:
            _log.warning("the template %s has the name of a command of the agent and is left out", command.name)
        else:
            found[command.name] = command
    here = Path(os.path.realpath(cwd))
    for folder in dict.fromkeys((here, find_project(here))):
        for command in _templates(folder / PROJECT_FOLDER / FOLDER, "project", root=folder):
            name = f"project:{command.name}" if command.name in found else command.name
            found.setdefault(name, Command(name, command.description, command.hint, command.body, "project"))
    return found


def invoked(text: str) -> tuple[str, str] | None:
    """Return name and arguments if the text begins with a command."""
    called = _CALL.fullmatch(text.rstrip())
    return None if called is None else (called[1], (called[2] or "").strip())


def commands_update(commands: Mapping[str, Command]) -> v1.AvailableCommandsUpdate:
    """The update that lists the commands for a client."""
    return v1.AvailableCommandsUpdate(
        [
            v1.AvailableCommand(each.name, _shown(each), v1.UnstructuredCommandInput(each.hint) if each.hint else UNSET)
            for each in commands.values()
        ]
    )


async def run_command(call: Invocation, session: OpenSession) -> str:
    """Run one of the agent's own commands and return the text of the answer."""
    commands = session.commands
    if call.command is None:
        names = ", ".join(f"/{name}" for name in commands)
        return (
            f"There is no command /{call.name}. There are {names}. "
            "A message for the model that begins with a slash needs a space before it."
        )
    match call.name:
        case "help":
            return "\n".join(f"- `/{' '.join(filter(None, (x.name, x.hint)))}` {_shown(x)}" for x in commands.values())
        case "clear":
            session.memory.clear()  # the model does not know any file now
            return "The model has forgotten the conversation. It is still stored, and shown when it is loaded again."
        case "mode":
            return await _set_mode(call.arguments, session)
        case "model":
            return await _set_model(call.arguments, session)
    raise AssertionError(call.name)


async def _set_mode(wanted: str, session: OpenSession) -> str:
    if wanted in ("full", "auto"):
        # A prompt may hold text of others, piped in or pasted; that must not be able to switch permission off.
        how = f"{wanted} is chosen in the editor, or with --mode {wanted}, not by a message"
        return f"The mode stays {session.mode.id}: {how}."
    if wanted in [mode.id for mode in session.modes]:
        await session.choose(mode=wanted)
        return f"The mode is {wanted} now: {MODES[wanted].description}."
    listed = "\n".join(f"- `{mode.id}` {mode.description}" for mode in session.modes)
    missing = f"There is no mode {wanted!r}. " if wanted else ""
    return f"{missing}The mode is {session.mode.id}. There are:\n{listed}"


async def _set_model(wanted: str, session: OpenSession) -> str:
    from dragoman.builtin.models.choice import check_model
    from dragoman.builtin.models.providers import missing_key

    if not wanted:
        names = ", ".join(session.model_names)
        return f"The model is {session.model_name}. Offered: {names}; another can be named as /model PROVIDER:NAME."
    try:
        check_model(wanted, session.env)
    except ConfigError as error:
        return f"The model stays {session.model_name}: {error}"
    provider = missing_key(wanted, session.env)
    if provider is not None:
        advice = f"set {' or '.join(provider.variables)}, or log in with: dragoman agent login {provider.id}"
        return f"The model stays {session.model_name}: {wanted} needs a key: {advice}."
    await session.choose(model=wanted)
    return f"The model is {wanted} now."


class AnswerModel(Model):
    """A model that gives one fixed text: the agent's own answer to a command."""

    name = "dragoman"
    context_tokens = None
    is_scripted = False

    def __init__(self, text: str) -> None:
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        yield c.TextStart("words")
        yield c.TextDelta("words", self._text)
        yield c.TextEnd("words")
        yield StepEnd("stop")


def _templates(folder: Path, source: Literal["user", "project"], root: Path | None = None) -> Iterator[Command]:
    """Return the templates of a folder by name. A link that leads out of a project is not followed."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".md"))[:_MOST]
        workspace = Workspace([root or folder], limits=FileLimits(file_bytes=_LARGEST_BYTES)) if names else None
    except (OSError, WorkspaceError):
        return
    for file in names:
        name = file.removesuffix(".md")
        try:
            if workspace is None or not _NAME.fullmatch(name):
                continue
            # The user's own templates may be links to any place.
            path = folder / file
            text = workspace.read_text(path) if root else _read_own(path)
        except (OSError, WorkspaceError) as error:
            _log.warning("a command is left out: %s", error)
            continue
        members, body = _front_matter(text)
        if body:
            description = members.get("description") or body.splitlines()[0].strip("# ")
            yield Command(name, description[:_DESCRIPTION_CHARACTERS], members.get("argument-hint", ""), body, source)


def _read_own(path: Path) -> str:
    real = Path(os.path.realpath(path))
    return Workspace([real.parent], limits=FileLimits(file_bytes=_LARGEST_BYTES)).read_text(real)


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split off `key: value` lines between two lines `---` at the beginning."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---" or "---" not in (line.rstrip() for line in lines[1:]):
        return {}, text.strip()
    end = next(number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    pairs = (line.partition(":") for line in lines[1:end])
    members = {key.strip().lower(): " ".join(value.split()).strip("\"'") for key, colon, value in pairs if colon}
    return members, "\n".join(lines[end + 1 :]).strip()


def _words(arguments: str) -> list[str]:
    import shlex  # only for templates with places for arguments

    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe is not a quotation mark
        return arguments.split()


def _shown(command: Command) -> str:
    return f"{command.description} (from the project)" if command.source == "project" else command.description
