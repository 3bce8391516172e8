"""What can be completed in a prompt: slash commands, and files of the project behind `@`.

Owns which word is completed, and whether a text that begins with a slash is a command; what matches, and the list of
the project's files, are in `workspace/file_index.py`. Does not know a screen: several forms of the client use it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dragoman.schema import v1
from dragoman.text.terminal import one_line
from dragoman.text.visible import label
from dragoman.workspace.file_index import ranked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MOST_FREQUENT: Final = 8
"""Rows of the menu behind a slash alone: what is used often; the others are found by typing."""
FREQUENT: Final = ("model", "mode", "resume", "new", "help", "diff", "rewind", "exit")
_OWN_FREQUENT: Final = 5  # so many of ours are in the menu in any case; the rest of it is the agent's
_MENTION: Final = re.compile(r'(?:^|(?<=[\s(\[{"\',;]))@(?:"([^"\n]*)("?)|([^\s"]*))')
_TRAILING: Final = ".,;:!?)]}'\""
_COMMAND: Final = re.compile(r"/[\w?:.-]*")
"""The first word of a text that is meant as a command; with a second slash in it, it is a path."""


class CompletedWord(NamedTuple):
    """The word at the cursor that a menu completes."""

    kind: Literal["command", "file"]
    query: str
    """What was typed of it, without `/` or `@`."""
    start: int
    end: int
    """The part of the text that an accepted choice replaces."""


class Suggestion(NamedTuple):
    """One row of a menu."""

    inserted: str
    """What replaces the word, with the space that follows it, if one does."""
    shown: str
    detail: str
    source: str
    """Where it comes from: the agent, this client, or the project."""


class ClientCommand(NamedTuple):
    """A slash command of this client, or another name of one."""

    name: str
    help: str


class AgentCommand(NamedTuple):
    """A slash command of the agent."""

    name: str
    description: str
    hint: str = ""


def agent_commands(commands: Iterable[v1.AvailableCommand]) -> list[AgentCommand]:
    """Return the commands that an agent announced."""
    return [
        AgentCommand(
            command.name,
            command.description,
            command.input.hint if isinstance(command.input, v1.UnstructuredCommandInput) else "",
        )
        for command in commands
    ]


def word_at(text: str, cursor: int) -> CompletedWord | None:
    """Return the word at a cursor that can be completed: `/name` at the start of the text, `@path` of a word."""
    if text.startswith("/") and cursor >= 1 and not re.search(r"\s", text[1:cursor]):
        end = cursor
        while end < len(text) and not text[end].isspace():
            end += 1
        return CompletedWord("command", text[1:cursor], 0, end)
    for match in _MENTION.finditer(text):
        if match.start() < cursor <= match.end():
            typed = text[match.start() + 1 : cursor]
            if typed.startswith('"') and match[2] and cursor == match.end():
                return None  # the path is complete
            return CompletedWord("file", typed.lstrip('"'), match.start(), match.end())
    return None


def mentions(text: str) -> list[str]:
    """Return the paths behind `@` in a text, in their order, each once, whether or not there is such a file."""
    paths: list[str] = []
    for match in _MENTION.finditer(text):
        path = match[1] if match[1] is not None else match[3] or ""
        if path and path not in paths:
            paths.append(path)
    return paths


def spoken(path: str) -> list[str]:
    """Return a mentioned path, and the same without punctuation behind it: `see @a.txt.` means `a.txt`."""
    return [path, *([shorter] if (shorter := path.rstrip(_TRAILING)) not in (path, "") else [])]


def mention(path: str) -> str:
    """Return a path as it is written into a prompt."""
    return f'@"{path}"' if re.search(r'[\s"]', path) else f"@{path}"


def literal_text(raw: str) -> str | None:
    """Return the text that goes to the agent as it is: behind a blank, which stays, or `/name` for `//name`; else None.

    The blank stays because an agent, too, may read a text that begins with a slash as a command of its own.
    """
    text = raw.strip()
    if text.startswith("//") and _COMMAND.fullmatch(text.split(maxsplit=1)[0][1:]) and text[2:3].strip():
        return text[1:]
    return f" {text}" if text.startswith("/") and raw[:1].isspace() else None


def unknown_command(text: str, known: Collection[str], *, is_agent_known: bool = True) -> str:
    """Return what to say about an unknown slash command; empty if the text is a prompt, or the command is known.

    A text whose first word has a second slash is a prompt about a path, as is `/tmp is full`: a file of that name, with
    words behind it.

    Args:
        text: As it was typed.
        known: The names of all commands, of the agent and of this client.
        is_agent_known: The agent is there, so that its commands are known.
    """
    from difflib import get_close_matches  # only a command that was misspelt needs it

    word, *words = text.split(maxsplit=1) or [""]
    if not _COMMAND.fullmatch(word) or word[1:] in known or (words and len(word) > 1 and os.path.exists(word)):
        return ""
    if word == "/":
        return "type the name of a command behind /, or /help for all of them"
    near = get_close_matches(word, [f"/{name}" for name in sorted(known)], n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    if not is_agent_known:
        meant += "Those of the agent are not known until it is there. "
    shown = label(word, 40)
    return f"not sent: there is no command {shown}. {meant[:1].upper()}{meant[1:]}/{shown} sends it"


def command_suggestions(
    query: str, agent: Iterable[AgentCommand], client: Iterable[ClientCommand], agent_name: str = "agent"
) -> list[Suggestion]:
    """Return the commands that match; without a query the frequent ones, at most eight.

    The agent's own wins where both have a name; ours is `/dragoman:NAME` then.
    """
    theirs = list(agent)
    taken = {command.name for command in theirs}
    rows: list[tuple[str, Suggestion]] = []
    for command in theirs:
        detail = one_line(f"{command.description} · {command.hint}" if command.hint else command.description)
        row = Suggestion(
            f"/{command.name} ", f"/{label(command.name, 40)}", label(detail, 200, ""), label(agent_name, 20)
        )
        rows.append((command.name, row))
    own: dict[str, Suggestion] = {}
    for ours in client:
        name = f"dragoman:{ours.name}" if ours.name in taken else ours.name
        own[ours.name] = Suggestion(f"/{name} ", f"/{name}", ours.help, "client")
    if query:
        return ranked(query, [*rows, *own.items()])
    named = {**own, **dict(rows)}
    others = [row for name, row in rows if name not in FREQUENT]
    often = [named[name] for name in FREQUENT if name in named]
    return [*often[: max(_OWN_FREQUENT, MOST_FREQUENT - len(others))], *others][:MOST_FREQUENT]


def is_whole_name(word: CompletedWord, rows: Sequence[Suggestion], paths: Collection[str] = ()) -> bool:
    """Return whether a word is typed to its end: the name of a command, or the path of a file."""
    if word.kind == "command":
        return any(row.inserted.strip() == f"/{word.query}" for row in rows)
    return any(path in paths for path in spoken(word.query))


def file_suggestions(query: str, paths: Sequence[str]) -> list[Suggestion]:
    """Return the files and folders that match; a folder ends with a slash, and the cursor stays behind that."""
    rows = ranked(query, ((path, path) for path in paths if path != query))
    return [Suggestion(_inserted(path), label(path, 200), "", "folder" if path.endswith("/") else "") for path in rows]


def _inserted(path: str) -> str:
    if not path.endswith("/"):
        return f"{mention(path)} "
    return f'@"{path}' if re.search(r'[\s"]', path) else f"@{path}"
