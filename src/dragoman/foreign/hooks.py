"""Hooks of Claude Code, Codex and Gemini CLI, as entries of `hooks` in the settings.

Their names of moments are kept, because such a hook is given their names of tools and arguments. A hook of
the user that runs before tool calls may permit what no rule concerns, so that each of these is asked about; keys in a
line are asked about, too, and a project's hooks stay proposals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.tools.foreign_names import our_tool_name
from dragoman.foreign.proposal import HookEntry, Proposal, impossible
from dragoman.foreign.secrets import has_secret, masked
from dragoman.settings.hooks import DEFAULT_SECONDS, MOST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from dragoman.foreign.places import Places
    from dragoman.foreign.proposal import Program, Source, State

_EVENTS: Final[dict[str, frozenset[str]]] = {
    "claude": frozenset(
        (
            *("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop"),
            *("SubagentStart", "SubagentStop", "Notification"),
        )
    ),
    "codex": frozenset(("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop")),
    "gemini": frozenset(("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "Notification")),
}
_OF_TOOLS: Final = frozenset(("PreToolUse", "PostToolUse", "PostToolUseFailure", "BeforeTool", "AfterTool"))
_OF_SUBAGENTS: Final = frozenset(("SubagentStart", "SubagentStop"))
_LONGEST: Final = 8_000
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MCP: Final = re.compile(r"\bmcp__(\w+?)__")
_SHOWN: Final = 60


def propose_hooks(
    events: Any, source: Source, places: Places, existing: Any, line: Callable[..., int], off: Collection[str] = ()
) -> Iterator[Proposal]:
    """Yield the proposals for the member `hooks` of a file.

    Args:
        existing: `hooks` of the settings that are written to.
        line: gives the line of a value of the file by its keys.
        off: names and commands of hooks that are switched off.
    """
    if not isinstance(events, dict):
        yield impossible("hooks", "hooks", source, "hooks is not an object")
        return
    for event, groups in events.items():
        here = source.at(line(event))
        if event not in _EVENTS[source.program]:
            if isinstance(groups, list) and groups:
                why = f"there is no such moment here; there are {', '.join(sorted(_EVENTS[source.program]))}"
                yield impossible("hooks", event, here, why)
            continue
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for index, entry in enumerate(entries if isinstance(entries, list) else ()):
                at = source.at(line(event, number, "hooks", index))
                proposal = _propose(event, group.get("matcher", ""), entry, at, places, existing)
                is_off = isinstance(entry, dict) and {str(entry.get("name")), str(entry.get("command"))} & set(off)
                yield impossible("hooks", proposal.name, at, "it is switched off there") if is_off else proposal


def _propose(event: str, matcher: Any, entry: Any, source: Source, places: Places, existing: Any) -> Proposal:
    command = entry.get("command", "") if isinstance(entry, dict) else ""
    name = f"{event}: {masked(' '.join(str(command).split()))}"[:_SHOWN]
    notes: list[str] = []
    if not isinstance(entry, dict) or entry.get("type", "command") != "command" or not isinstance(command, str):
        kind = entry.get("type") if isinstance(entry, dict) else None
        return impossible("hooks", name, source, f"hooks of the type {kind!r} are not supported; only commands run")
    if not command.strip() or len(command) > _LONGEST or "\0" in command:
        return impossible("hooks", name, source, f"its command is empty or longer than {_LONGEST} characters")
    if entry.get("async"):
        return impossible("hooks", name, source, "hooks that nothing waits for (async) are not supported")
    group: dict[str, Any] = {}
    if event in _OF_TOOLS | _OF_SUBAGENTS and matcher not in ("", "*", None):
        text, lost = _matcher(source.program, str(matcher), is_for_tools=event in _OF_TOOLS)
        if not text:
            return impossible("hooks", name, source, lost)
        notes += [lost] if lost else []
        group["matcher"] = text
    elif matcher not in ("", "*", None):
        return impossible("hooks", name, source, f"a matcher ({matcher}) for {event} cannot be expressed")
    notes += _differences(source.program, event)
    seconds, lost = _seconds(source.program, entry.get("timeout"))
    notes += [lost] if lost else []
    notes += [
        f"{key} is not carried over" for key in entry if key not in ("type", "command", "timeout", "name", "async")
    ]
    inner: dict[str, Any] = {"type": "command", "command": command}
    if seconds != DEFAULT_SECONDS:
        inner["timeout"] = seconds
    group["hooks"] = [inner]
    where = places.short(places.settings)
    if isinstance(existing, dict) and group in (existing.get(event) or ()):
        return Proposal("hooks", name, source, "present", f"hooks.{event} in {where}", tuple(notes))
    if places.scope == "project":
        notes.append("a proposal: each user accepts it with dragoman agents accept --hook NAME")
    change = HookEntry(places.settings, event, group)
    question = _question(event, command, where, places)
    if question:
        notes.append("asked about at the terminal only")
    state: State = "question" if question else "ready"
    becomes = f"hooks.{event} in {where}"
    return Proposal("hooks", name, source, state, becomes, tuple(notes), (change,), question=question)


def _differences(program: Program, event: str) -> list[str]:
    """Return what is different here for a hook of another program."""
    if program == "gemini" and event in _OF_TOOLS:
        return ["it is given the names of tools and arguments that Claude Code uses"]
    if event == "SubagentStart":
        return ["if it refuses with exit code 2, the subagent does not begin"]
    return []


def _question(event: str, command: str, where: str, places: Places) -> str:
    """Return what has to be asked before this hook is written; empty if nothing has to be."""
    if has_secret(command):
        return f"The line seems to hold a key. Copy it with the key into {where}?"
    if event in ("PreToolUse", "BeforeTool") and places.scope == "user":
        # A project's hook can refuse only. One of the user may permit what no rule concerns.
        return f"If this hook answers `allow`, calls that no rule concerns are not asked about. Write it into {where}?"
    return ""


def _matcher(program: Program, matcher: str, *, is_for_tools: bool) -> tuple[str, str]:
    """Return the matcher in names that are known here, and what it loses; "" and why if it cannot be used."""
    try:
        re.compile(matcher)
    except re.error as error:
        return "", f"its matcher is not a regular expression: {error}"
    if not is_for_tools:  # subagents keep their names when they are imported, and those of others are known
        return matcher, ""
    # Tools of servers are called SERVER_TOOL here.
    text = _MCP.sub(r"\1_", matcher)
    if program == "gemini":
        text = _WORD.sub(lambda found: our_tool_name(found[0]), text)
    if program == "codex":
        text = re.sub(r"\bapply_patch\b", "edit|write|apply_patch", text) if re.fullmatch(r"[\w|]+", text) else text
    return text, "" if text == matcher else f"its matcher {matcher} is written {text}"


def _seconds(program: Program, timeout: Any) -> tuple[float, str]:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        return DEFAULT_SECONDS, ""
    seconds = timeout / 1000 if program == "gemini" else float(timeout)
    if seconds > MOST_SECONDS:
        return MOST_SECONDS, f"its time limit of {seconds:g} seconds is shortened to {MOST_SECONDS:g}"
    return seconds, ""
