"""What can be completed in a prompt: slash commands, and files of the project behind `@`.

Owns which word is completed, what matches it and in which order, the list of the project's files, and whether a text
that begins with a slash is a command. Pure but for `FileIndex`, which walks a folder on a thread, with limits. Does not
know a screen: several forms of the client use it.
"""

from __future__ import annotations

import asyncio
import os
import re
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from dragoman.schema import v1
from dragoman.text.terminal import one_line
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from dragoman.workspace.ignore import IgnoreStack

T = TypeVar("T")
MOST_SHOWN: Final = 50
MOST_FREQUENT: Final = 8
"""Rows of the menu behind a slash alone: what is used often; the others are found by typing."""
FREQUENT: Final = ("model", "mode", "resume", "new", "help", "diff", "rewind", "exit")
_OWN_FREQUENT: Final = 5  # so many of ours are in the menu in any case; the rest of it is the agent's
MOST_FILES: Final = 50_000  # more than most projects have; about 5 MB of names
WALK_SECONDS: Final = 3.0
FRESH_SECONDS: Final = 15.0
"""A list of files that is older is made again when a menu opens; until it is there the old one is used."""
_GIT: Final = ".git"
_RULES: Final = ".gitignore"
_MENTION: Final = re.compile(r'(?:^|(?<=[\s(\[{"\',;]))@(?:"([^"\n]*)("?)|([^\s"]*))')
_BOUNDARIES: Final = frozenset("/_-. ")
_LONGEST_QUERY: Final = 200
_MOST_SCORED: Final = 5_000  # the nearest of the names that match
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


def ranked(query: str, rows: Iterable[tuple[str, T]]) -> list[T]:
    """Return what matches a query, the best first; equal ones in the order in which they came."""
    wanted = query[:_LONGEST_QUERY]
    if not wanted:
        return [row for _, row in _first(rows)]
    named = list(rows)
    scored: list[tuple[int, int, T]] = []
    for number in _matching(wanted, [name for name, _ in named]):
        name, row = named[number]
        score = match_score(wanted, name)
        if score is not None:
            scored.append((-score, number, row))
    scored.sort(key=lambda item: item[:2])
    return [row for _, _, row in scored[:MOST_SHOWN]]


def _matching(query: str, names: Sequence[str]) -> list[int]:
    """Return which names are worth a score. A key waits while this runs, over 50,000 names: one look at each."""
    folded = names if any(letter.isupper() for letter in query) else list(map(str.lower, names))
    whole = [number for number, name in enumerate(folded) if query in name]
    if len(whole) >= MOST_SHOWN:  # every one of them scores more than any other name
        return whole[:_MOST_SCORED]
    # Atomic: without that, a letter that is missing at the end is looked for in every way to match those before it.
    in_order = re.compile("".join(f"(?>.*?{re.escape(letter)})" for letter in query), re.DOTALL).match
    others = [number for number, name in enumerate(folded) if in_order(name)][:_MOST_SCORED]
    return [*dict.fromkeys([*whole, *others])]


def _first(rows: Iterable[T]) -> Iterator[T]:
    for number, row in enumerate(rows):
        if number >= MOST_SHOWN:
            return
        yield row


def match_score(query: str, name: str) -> int | None:
    """Return how well a name matches: every letter of the query occurs in its order. None if it does not match.

    Letters in a row, at the start of a part of the name, and in its last part count more; a long name counts less.
    Small letters match large ones, a large one only itself.
    """
    folded = name if any(letter.isupper() for letter in query) else name.lower()
    base = folded.rstrip("/").rfind("/") + 1
    whole = folded.find(query)
    if whole >= 0:
        at = folded.find(query, base)
        place = at if at >= 0 else whole
        starts = place == 0 or folded[place - 1] in _BOUNDARIES
        return 10_000 + (2_000 if at >= 0 else 0) + (1_000 if starts else 0) - min(len(name), 900)
    score, position, row = 0, 0, 0
    for letter in query:
        next_place = folded.find(letter, position)
        if next_place < 0:
            return None
        row = row + 1 if next_place == position else 0
        score += (
            5 * row
            + (10 if next_place == 0 or folded[next_place - 1] in _BOUNDARIES else 0)
            + (4 if next_place >= base else 0)
        )
        position = next_place + 1
    return score * 10 - min(len(name), 900)


class FileIndex:
    """The files and folders of a project, without what git ignores. Made on a thread, bounded in count and time."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.paths: Sequence[str] = ()
        self.is_cut = False
        """There are more files than are listed, or the walk took too long."""
        self._made_at: float | None = None
        self._making: asyncio.Task[None] | None = None
        self._is_over = False

    def refresh(self, done: Callable[[], None] | None = None) -> None:
        """Make the list again if it is old; `done` is called on the loop when a new one is there."""
        is_fresh = self._made_at is not None and monotonic() - self._made_at < FRESH_SECONDS
        if is_fresh or (self._making is not None and not self._making.done()):
            return
        self._making = asyncio.ensure_future(self._make(done))

    @property
    def is_made_now(self) -> bool:
        """Whether a walk is under way."""
        return self._making is not None and not self._making.done()

    def close(self) -> None:
        """Stop a walk that is under way."""
        self._is_over = True
        if self._making is not None:
            self._making.cancel()

    async def _make(self, done: Callable[[], None] | None) -> None:
        self.paths, self.is_cut = await asyncio.to_thread(list_files, self.folder, lambda: self._is_over)
        self._made_at = monotonic()
        if done is not None:
            done()


def list_files(
    folder: str, is_over: Callable[[], bool] = lambda: False, *, most: int = MOST_FILES, seconds: float = WALK_SECONDS
) -> tuple[list[str], bool]:
    """Return the paths below a folder, the nearest first; folders end with a slash. Also whether some were left out.

    What git ignores and names that begin with a dot are left out, links are listed and not followed.
    """
    from dragoman.workspace.ignore import IgnoreStack

    end = monotonic() + seconds
    paths: list[str] = []
    waiting: list[tuple[str, IgnoreStack]] = [("", IgnoreStack.above(folder))]
    while waiting:
        deeper: list[tuple[str, IgnoreStack]] = []
        for before, rules in waiting:
            if is_over() or monotonic() > end:
                return paths, True
            for path, inner in _entries(folder, before, rules):
                if len(paths) >= most:
                    return paths, True
                paths.append(path)
                if inner is not None:
                    deeper.append((path, inner))
        waiting = deeper
    return paths, False


def _entries(start: str, before: str, rules: IgnoreStack) -> Iterator[tuple[str, IgnoreStack | None]]:
    """Yield the entries of one folder by name, each folder with the rules that hold there."""
    folder = os.path.join(start, before)
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return  # not readable, or deleted in the meantime
    if before:
        names = {entry.name for entry in entries if entry.name in (_GIT, _RULES)}
        rules = rules.inside(folder, before[:-1], has_rules=_RULES in names, is_repository=_GIT in names)
    for entry in entries:
        name = entry.name
        try:
            name.encode()
            is_folder = entry.is_dir(follow_symlinks=False)
        except (UnicodeEncodeError, OSError):
            continue  # a name that is not UTF-8 cannot be put into a prompt
        decision = rules.decide(before + name, name, is_folder)
        is_written = name.isprintable() and '"' not in name  # a mention in quotes ends with the next one
        if name == _GIT or decision or (decision is None and name.startswith(".")) or not is_written:
            continue
        yield (f"{before}{name}/", rules) if is_folder else (before + name, None)
