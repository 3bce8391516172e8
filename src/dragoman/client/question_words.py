"""The words of a permission question: what is asked, why, what each answer does, which rule it writes, and where.

The one place where a question becomes text. Every form of it (`exec`, the terminal client, editors behind a guard,
clients of a host) shows these words and only lays them out. They are made from what was read of a request, and not from
what the agent calls it: its title is shown as the agent's. Everything here is safe to show: hidden characters are
spelled out, long blanks are counted, and what is too long shows its start, its end and how much is left out. Pure; does
not judge, and loads no rules.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import UNSET, Struct, json, structs

from dragoman.policy.paths import is_below
from dragoman.schema import v1
from dragoman.text.terminal import cut_middle
from dragoman.text.visible import label, quoted, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dragoman.policy import Request
    from dragoman.state import ToolCallState

_TITLE: Final = 200  # characters; editors show about one line
_AGENT_TITLE: Final = 2_000
_LONGEST_LINE: Final = 20_000  # characters; about ten screens
_MOST_LINES: Final = 2_000  # of one command, file list or input; a user reads no more
_BLANKS: Final = re.compile(r" {9,}")  # what follows many blanks is easily overlooked
# What is done is named by the kind that can do most.
_STRONGEST: Final = ("execute", "delete", "move", "edit", "fetch", "switch_mode", "other", "search", "read", "think")
_VERBS: Final = {"read": "Read", "edit": "Edit", "delete": "Delete", "move": "Move", "search": "Search"}
_OTHERS: Final = {
    "think": "Think",
    "switch_mode": "Switch to another mode",
    "other": "Something other than files and commands",
}
_ALWAYS: Final[dict[str, Literal["allow", "deny"]]] = {"allow_always": "allow", "reject_always": "deny"}
_MEANINGS: Final = {
    "allow_once": "yes, this time",
    "allow_always": "yes, always",
    "reject_once": "no",
    "reject_always": "no, never",
}
# Names that agents give to options and that say what the kind says; any other gets our words.
_PLAIN_NAMES: Final = {
    "allow_once": frozenset(("allow", "allow once", "yes", "approve", "accept", "proceed")),
    "reject_once": frozenset(("reject", "reject once", "no", "deny", "decline", "refuse")),
}
_LETTERS: Final = {"allow_once": "y", "allow_always": "a", "reject_once": "n"}
UNKNOWN_KIND: Final = "a kind that this version does not know"


class AskedRow(Struct, frozen=True, omit_defaults=True):
    """One thing that is asked about: our word for it, its lines, and a remark of ours."""

    key: str
    lines: tuple[str, ...]
    note: str = ""


class QuestionWords(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is asked, as text.

    Attributes:
        kind: the strongest kind of what was read.
        title: what was read, in one line.
        rows: what was read, whole.
        why: why it is asked, unchanged.
        agent_title: what the agent calls it; empty if that is the same.
        command_count: how many commands run with the answer.
        is_whole: whether the rows leave nothing out. If they do, an answer permits nothing that follows.
    """

    kind: str
    title: str
    rows: tuple[AskedRow, ...] = ()
    why: str = ""
    agent_title: str = ""
    command_count: int = 0
    is_whole: bool = True


class AlwaysDetails(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an answer of "always" writes, and who keeps it."""

    action: Literal["allow", "deny"]
    by: Literal["host", "agent"]
    rule: str | None = None
    kept: Literal["project", "session", "agent"] | None = None
    file: str | None = None
    """Where it is written."""
    is_certain: bool = False
    """Whether it is known that the agent does what it says: it is the built-in one."""

    @property
    def is_ours(self) -> bool:
        """Whether dragoman keeps the rule, in this program or as the agent."""
        return self.by == "host" or self.is_certain


class OptionWords(Struct, frozen=True):
    """One answer.

    Attributes:
        id: the option's id.
        kind: its kind, as it was sent.
        label: its text, which is the agent's unless `is_ours`.
        meaning: its kind in our words.
        effect: what it writes, and where; empty for an answer that holds once.
        is_ours: whether dragoman offers it.
        is_clear: whether it can be chosen: its kind is known, and its id has one meaning.
        always: what an "always" writes.
    """

    id: str
    kind: str
    label: str
    meaning: str
    effect: str
    is_ours: bool
    is_clear: bool
    always: AlwaysDetails | None = None

    @property
    def allows(self) -> bool:
        """Whether it lets the tool run; a kind that is not known may do so."""
        return not self.kind.startswith("reject")

    @property
    def is_plain(self) -> bool:
        """Whether its label is known to say what it means."""
        return self.is_ours or self.label.strip().lower() in _PLAIN_NAMES.get(self.kind, ())

    @property
    def short(self) -> str:
        """The answer in a word or two, for a screen without room."""
        kept = None if self.always is None else self.always.kept
        scope = kept if kept in ("session", "project") else "always" if self.always is not None else ""
        word = "?" if self.kind not in _MEANINGS else "yes" if self.allows else "no"
        return f"{word}, {scope}" if scope else word

    def text(self, width: int) -> str:
        """Return the answer in one line: what it means comes before what the agent calls it."""
        name = label(self.label, max(8, min(100, width - (0 if self.is_plain else len(self.meaning) + 2))))
        return name if self.is_plain else f"{self.meaning}: {name}"


# What is asked


def asked_words(
    requests: Sequence[Request],
    *,
    why: str,
    agent_title: str = "",
    env: Mapping[str, str] | None = None,
    raw_input: Any = UNSET,
) -> QuestionWords:
    """Return the words for what was read of a request.

    Args:
        requests: everything that the answer decides.
        why: why it is asked.
        agent_title: what the agent calls it.
        env: the variables that are set for a command.
        raw_input: what the tool gets; shown if nothing else says what it does.
    """
    kinds = sorted({request.kind for request in requests}, key=_strength)
    count = sum(_count(request) for request in requests if request.command is not None)
    rows = [*_rows(requests, env or {}, count)]
    has_subject = any(request.command is not None or request.paths or request.host for request in requests)
    if not has_subject:
        rows += _input_rows(raw_input)
    subjects = dict.fromkeys(_subject(request) for request in requests)
    title = one_line(_without_weaker(list(subjects), requests), _TITLE)
    shown = tuple(_limited(row) for row in rows)
    commands = {text for request in requests if (text := request.command_line) is not None}
    is_same = agent_title.strip().strip("`").strip() in {*commands, title, ""}
    return QuestionWords(
        kind=kinds[0] if kinds else "other",
        title=title,
        rows=shown,
        why=why,
        agent_title="" if is_same else one_line(agent_title, _AGENT_TITLE),
        command_count=count,
        is_whole=shown == tuple(rows) and not any(request.unreadable for request in requests),
    )


def with_folder(words: QuestionWords, folder: str) -> QuestionWords:
    """Return the words with the folder in which the commands run that name none."""
    at = next((number for number, row in enumerate(words.rows, 1) if row.key in ("runs", "shell")), 0)
    if not folder or not at or any(row.key == "in" for row in words.rows):
        return words
    return structs.replace(
        words, rows=(*words.rows[:at], AskedRow("in", (_visible(quoted(folder)),)), *words.rows[at:])
    )


def _strength(kind: str) -> int:
    return _STRONGEST.index(kind) if kind in _STRONGEST else _STRONGEST.index("other")


def _without_weaker(subjects: list[str], requests: Sequence[Request]) -> str:
    """Return the subjects in one text. A part that could not be read is named after those that could."""
    if not any(request.unreadable for request in requests):
        return "; ".join(subjects)
    problem = next(request.unreadable for request in requests if request.unreadable)
    known = [_subject(request) for request in requests if _is_known(request)]
    return "; ".join([*dict.fromkeys(known), f"it could not be read what this does ({problem})"])


def _is_known(request: Request) -> bool:
    return bool(request.command is not None or request.paths or request.host or request.mcp)


def _subject(request: Request) -> str:
    """Return what one request is about; not made safe."""
    if request.mcp is not None:
        server, tool = request.mcp
        return f"Use {tool} of the MCP server {server}"
    if request.command is not None:
        return request.command.text
    if request.host is not None:
        return f"Fetch from {request.host}"
    if request.paths:
        verb = _VERBS.get(request.kind, "Use")
        return f"{verb} {', '.join(_relative(path, request.root) for path in request.paths)}"
    return _OTHERS.get(request.kind, f"Something of kind {request.kind}")


def _relative(path: str, root: str) -> str:
    below = root.rstrip("/") + "/"
    return path.removeprefix(below) if root not in ("", "/") and path != below else path


def _rows(requests: Sequence[Request], env: Mapping[str, str], count: int) -> Iterator[AskedRow]:
    for request in requests:
        if (command := request.command) is None:
            continue
        if command.line is None:
            yield AskedRow("runs", (_visible(" ".join(map(quoted, command.argv or ()))),))
        else:
            lines = command.line.replace("\r\n", "\n").strip("\n").split("\n")
            yield AskedRow("shell", tuple(map(_visible, lines)))
        if command.cwd:
            yield AskedRow("in", (quoted(command.cwd),))
    if count > 1:
        yield AskedRow("", (f"{count} commands run with this answer",))
    for name, value in sorted(env.items()):
        yield AskedRow("sets", (_visible(f"{quoted(name)}={quoted(value)}"),))
    root = requests[0].root if requests else ""
    for path in dict.fromkeys(path for request in requests for path in request.paths):
        is_outside = root not in ("", "/") and not is_below(path, root)
        yield AskedRow("path", (_visible(quoted(path)),), "outside the project" if is_outside else "")
    for host in dict.fromkeys(request.host for request in requests if request.host):
        yield AskedRow("host", (_visible(quoted(host)),))
    for server, tool in dict.fromkeys(request.mcp for request in requests if request.mcp):
        yield AskedRow("mcp", (_visible(f"{quoted(server)} {quoted(tool)}"),))
    # The title is prose; a rule goes by the name.
    for name in dict.fromkeys(request.tool for request in requests if request.tool and not request.mcp):
        yield AskedRow("tool", (_visible(quoted(name)),))


def _count(request: Request) -> int:
    """Count the commands that a request runs; one for a line that cannot be read."""
    runs = None if request.command is None else request.command.runs
    return 1 if runs is None or isinstance(runs, str) else len(runs.commands)


def _input_rows(raw: Any) -> Iterator[AskedRow]:
    """Yield what the tool gets, such as the arguments of a tool of an MCP server."""
    if raw is UNSET or raw is None:
        return
    for name, value in raw.items() if isinstance(raw, dict) else [("", raw)]:
        text = value if isinstance(value, str) else json.encode(value).decode()
        lines = text.replace("\r\n", "\n").strip("\n").split("\n")
        named = one_line(str(name), 60)
        yield AskedRow(
            "input", tuple(_visible(f"{named}: {line}" if named and not at else line) for at, line in enumerate(lines))
        )


def _visible(line: str) -> str:
    """Return a line in which nothing is hidden: neither by its characters nor behind many blanks."""
    return _BLANKS.sub(lambda blanks: f" <{len(blanks[0])} blanks> ", spelled(line))


def one_line(text: str, most: int) -> str:
    """Return a text as one safe line: its start, how much is left out, and its end."""
    lines = text.replace("\r\n", "\n").strip().split("\n")
    return cut_middle(" ⏎ ".join(_visible(line.rstrip()) for line in lines), most)


def _limited(row: AskedRow) -> AskedRow:
    """Return the row without what no user would read: the middle of very long lines, and of very many."""
    lines = tuple(cut_middle(line, _LONGEST_LINE) for line in row.lines)
    if len(lines) > _MOST_LINES:
        start, end = _MOST_LINES * 2 // 3, _MOST_LINES // 3
        left_out = f"… ({len(lines) - start - end} more lines) …"
        lines = (*lines[:start], left_out, *lines[-end:])
    return row if lines == row.lines else structs.replace(row, lines=lines)


# What the answers do


def always_of(option: v1.PermissionOption) -> AlwaysDetails | None:
    """Return what an agent says about its answer of "always"; None for an option that holds once."""
    action = _ALWAYS.get(option.kind)
    if action is None:
        return None
    own: Any = option.meta.get("dragoman") if isinstance(option.meta, dict) else None
    rule, kept, file = (own.get(name) if isinstance(own, dict) else None for name in ("rule", "kept", "file"))
    if not isinstance(rule, str):
        return AlwaysDetails(action=action, by="agent")
    return AlwaysDetails(
        action=action,
        by="agent",
        rule=rule,
        kept=kept if kept in ("session", "project") else "agent",
        file=file if isinstance(file, str) and kept == "project" else None,
    )


def option_words(
    options: Sequence[v1.PermissionOption], always: Mapping[str, AlwaysDetails]
) -> tuple[OptionWords, ...]:
    """Return the words of all answers in their order.

    Args:
        options: as the agent, or dragoman, offers them.
        always: what is known of those that mean "always", by id; about others the agent is believed.
    """
    found = []
    for option in options:
        details = always.get(option.option_id) if option.kind in _ALWAYS else None
        details = details or always_of(option)
        twins = {other.kind for other in options if other.option_id == option.option_id}
        found.append(
            OptionWords(
                option.option_id,
                str(option.kind),
                option.name,
                _meaning(option.kind, details),
                "" if details is None else effect_of(details),
                details is not None and details.is_ours,
                len(twins) == 1 and option.kind in _MEANINGS,
                details,
            )
        )
    return tuple(found)


def answer_letters(options: Sequence[OptionWords]) -> tuple[str, ...]:
    """Return the letter of each answer, the same in every form: `y` once, `a` always, `n` no; empty for a number only.

    A letter stands for one answer. Of several of a kind none has it, but for an `always` of dragoman's own: there it is
    the one for the project, and the one for the session has its number.
    """
    letters = []
    for option in options:
        same = [other for other in options if other.kind == option.kind]
        if len(same) > 1 and option.kind == "allow_always":
            # The narrowest one is offered first.
            kept = [other for other in same if other.always is not None and other.always.kept == "project"][:1]
            same = kept if all(other.is_ours for other in same) and option in kept else same
        has_letter = option.is_clear and len(same) == 1
        letters.append(_LETTERS.get(option.kind, "") if has_letter else "")
    return tuple(letters)


def letters_of(options: Sequence[OptionWords]) -> str:
    """Return how the answers are chosen, as `y, a, n or 1-6`."""
    letters = [letter for letter in answer_letters(options) if letter]
    numbers = [str(number) for number, option in enumerate(options[:9], 1) if option.is_clear]
    chosen = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else "".join(numbers)
    return f"{', '.join(letters)} or {chosen}" if letters else chosen


def _meaning(kind: str, details: AlwaysDetails | None) -> str:
    if details is not None and details.kept in ("session", "project"):
        return f"{'yes' if details.action == 'allow' else 'no'}, for this {details.kept}"
    return _MEANINGS.get(kind, UNKNOWN_KIND)


def effect_of(details: AlwaysDetails) -> str:
    """Return what an answer of "always" writes, and where."""
    if details.rule is None:
        return "the agent remembers this in its own way; dragoman writes no rule"
    rule = _visible(f"{details.action} {details.rule}")
    where = "" if details.file is None else f", in {_visible(quoted(_from_home(details.file)))}"
    if not details.is_ours:
        kept = {"project": "for this project", "session": "for this session"}.get(details.kept or "", "in its own way")
        return f"the agent says that it keeps: {rule}, {kept}{where}"
    return f"writes: {rule}{where}" if details.kept == "project" else f"keeps: {rule}"


def _from_home(path: str) -> str:
    home = os.path.expanduser("~").rstrip("/")
    return f"~{path.removeprefix(home)}" if home and path.startswith(f"{home}/") else path


# What programs are sent that show no more than the protocol's own members


def shown_request(
    request: v1.RequestPermissionRequest,
    words: QuestionWords,
    requests: Sequence[Request],
    changes: Sequence[v1.Diff] = (),
    announced: ToolCallState | None = None,
) -> v1.RequestPermissionRequest:
    """Return the request with kind, title, command and changes as they were read. All else stays as it was sent.

    Args:
        request: as the agent sent it.
        words: what was read, in words.
        requests: what was read.
        changes: what was read of files and is not in the content of the tool call.
        announced: the tool call as it was reported before: a client that shows it shows these members, too.
    """
    call = request.tool_call
    raw = call.raw_input if call.raw_input is not UNSET else announced.raw_input if announced is not None else UNSET
    shown = structs.replace(call, kind=words.kind, title=words.title)
    if changes:
        shown = structs.replace(shown, content=[*content_of(call, announced), *changes])
    commands = list(dict.fromkeys(asked.command_line for asked in requests if asked.command is not None))
    stated: dict[str, Any] = {"command": commands[0]} if len(commands) == 1 else {"commands": commands}
    given = raw if isinstance(raw, dict) else {}
    if commands and any(given.get(name) != value for name, value in stated.items()):
        shown = structs.replace(shown, raw_input={**given, **stated})
    return structs.replace(request, tool_call=shown)


def content_of(call: v1.ToolCallPatch, announced: ToolCallState | None) -> list[v1.ToolCallContent]:
    """Return the content that a client shows with a request: a request without any leaves what was reported before."""
    if call.content is UNSET and announced is not None:
        return list(announced.content)
    return list(call.content or ())


def plain_request(
    request: v1.RequestPermissionRequest,
    words: QuestionWords,
    options: Sequence[OptionWords],
    announced: ToolCallState | None = None,
) -> v1.RequestPermissionRequest:
    """Return the request for a program that shows nothing but the protocol's members: all words are in these."""
    call = request.tool_call
    text = v1.Content(v1.TextContent(fenced(plain_text(words, options))))
    offered = [
        structs.replace(option, name=plain_name(stated))
        for option, stated in zip(request.options, options, strict=True)
    ]
    shown = structs.replace(call, content=[*content_of(call, announced), text])
    return structs.replace(request, tool_call=shown, options=offered)


def plain_text(words: QuestionWords, options: Sequence[OptionWords]) -> str:
    """Return everything that a question has to state besides its title, as one text."""
    lines = []
    for row in words.rows:
        note = f"  ({row.note})" if row.note else ""
        lines += [f"{row.key if not at else '':<7}{line}{note}" for at, line in enumerate(row.lines)]
    if words.agent_title:
        lines.append(f"{'agent':<7}calls it: {words.agent_title}")
    if words.why:
        lines.append(f"{'why':<7}{spelled(words.why)}")
    lines += [f"{one_line(option.label, 60)}: {option.effect}" for option in options if option.effect]
    return "\n".join(lines)


def fenced(text: str) -> str:
    """Return a text as Markdown that shows it as it is."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def plain_name(option: OptionWords) -> str:
    """Return the text of an option for a program that shows nothing but this text.

    It is the agent's. If it is not known to say what the option does, and if the agent keeps the answer, our words
    follow it.
    """
    if option.is_ours or not option.is_clear:
        return option.label
    if option.always is not None:
        return f"{option.label} ({option.meaning}; the agent remembers it)"
    return option.label if option.is_plain else f"{option.label} ({option.meaning})"
