"""The facts of a conversation that a summary carries over word for word: no model decides about them.

Owns how they are found: the first wish, sentences of the user that forbid or require something, files read and changed,
the to-do list, background jobs, changed instructions, skills. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.context.history import ends_of
from dragoman.builtin.context.window.estimate import BYTES_PER_TOKEN, tokens_in
from dragoman.builtin.context.window.facts import InstructionNote, Notes
from dragoman.uistream.messages import DataPart, OtherPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.builtin.context.window.plan import Unit
    from dragoman.uistream.messages import Part

_GOAL_CHARACTERS: Final = 2000
_RULE_CHARACTERS: Final = 400
_MOST_RULES: Final = 40
_MOST_FILES: Final = 60
_MOST_STEERED: Final = 10
_LISTS: Final = ("rules", "read", "changed", "todo", "steered", "jobs", "instructions", "skills")
_READING: Final = frozenset({"read"})
_CHANGING: Final = frozenset({"write", "edit", "patch", "apply_patch", "multi_edit", "notebook_edit"})
_SENTENCE: Final = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*[.!?]?")
# Words with which users set limits, in the languages that are tested. One too many costs a line; one missed, trust.
_RULE: Final = re.compile(
    r"\b(?:do not|don['’]t|dont|never|must(?: not|n['’]t)?|mustn['’]t|may not|should(?: not|n['’]t)|shouldn['’]t"
    r"|cannot|can['’]t|no longer|not allowed|forbidden|prohibit\w*|without asking|ask (?:me )?(?:before|first)|always"
    r"|only (?:use|change|edit|touch|work|if|when|after)|leave \S+(?: \S+)? (?:alone|as)|stay away"
    r"|under no circumstances|at all times|make sure|important|avoid|refrain|stop using|instead of"
    r"|nicht|kein\w*|niemals|nie|immer|nur wenn|ne pas|jamais|toujours|nunca|siempre|no (?:toques|uses|cambies))\b",
    re.IGNORECASE,
)


def notes_of(
    units: Sequence[Unit], before: Notes, todo: Sequence[dict[str, str]] = (), jobs: Sequence[str] = ()
) -> Notes:
    """Return what to carry over from these pieces and from the summary before them.

    Args:
        todo: the to-do list, if it is known; otherwise the last one in the pieces or before them.
        jobs: where commands run, and the background jobs, as they are now.
    """
    texts = [text for unit in units for text in user_texts(unit)]
    steered = [text for unit in units if not unit.is_user for text in user_texts(unit)]
    calls = [part for unit in units for part in unit.parts if isinstance(part, ToolPart)]
    plans = [part.data for unit in units for part in unit.parts if isinstance(part, DataPart) and part.name == "plan"]
    changed = _newest([*before.changed, *_paths(calls, _CHANGING)])
    return Notes(
        before.goal or next((text[:_GOAL_CHARACTERS] for text in texts if text.strip()), ""),
        _newest([*before.rules, *(rule for text in texts for rule in rules_in(text))], _MOST_RULES),
        [path for path in _newest([*before.read, *_paths(calls, _READING)]) if path not in changed],
        changed,
        list(todo) or next((_entries(data) for data in reversed(plans)), before.todo),
        [*before.steered, *(text[:_GOAL_CHARACTERS] for text in steered)][-_MOST_STEERED:],
        list(jobs),
        _instructions(units, before),
        _newest([*before.skills, *_skills(calls)]),
    )


def _instructions(units: Sequence[Unit], before: Notes) -> list[InstructionNote]:
    """Return the last announcement of each file, the newest last."""
    notes = {note.path: note for note in before.instructions}
    for part in (part for unit in units if unit.is_user for part in unit.parts):
        match part:
            case DataPart(name="environment", data={"text": str(text), "instructions": {"path": str(path), **rest}}):
                notes.pop(path, None)
                notes[path] = InstructionNote(path, text, str(rest.get("digest", "")))
    return list(notes.values())


def _skills(calls: Sequence[ToolPart]) -> Iterator[str]:
    for call in calls:
        if call.name == "skill" and call.state == "output-available" and isinstance(call.input, dict):
            yield str(call.input.get("name", ""))


def rules_in(text: str) -> Iterator[str]:
    """Return the sentences that forbid or require something, word for word."""
    for found in _SENTENCE.finditer(text):
        sentence = found[0].strip(" \t-*#>")
        if sentence and len(sentence) <= _RULE_CHARACTERS and _RULE.search(sentence):
            yield sentence


def user_texts(unit: Unit) -> list[str]:
    """Return what the user wrote in a piece: a message, or an addition while the turn ran."""
    if unit.is_user:
        return [part.text for part in unit.parts if isinstance(part, TextPart) and part.text.strip()]
    return [text for part in unit.parts for text in steering_texts(part)]


def steering_texts(part: Part) -> list[str]:
    """Return the texts of an addition of the user, nothing for other parts."""
    match part:
        case OtherPart(raw={"type": "steering-message", "parts": list(sent)}):
            return [item["text"] for item in sent if isinstance(item, dict) and isinstance(item.get("text"), str)]
    return []


def fixed_block(notes: Notes) -> str:
    """Return the notes as text for the model. The same notes always give the same text."""
    blocks = []
    if notes.goal:
        blocks.append(f"The first message of the user:\n{notes.goal}")
    if notes.rules:
        blocks.append("Rules that the user set, word for word:\n" + _listed(notes.rules))
    if notes.steered:
        blocks.append("What the user added later:\n" + _listed(notes.steered))
    if notes.todo:
        lines = [f"[{entry.get('status', 'pending')}] {entry.get('content', '')}" for entry in notes.todo]
        blocks.append("The to-do list:\n" + _listed(lines))
    if notes.jobs:
        blocks.append("Commands and background jobs:\n" + _listed(notes.jobs))
    if notes.instructions:
        blocks.append("Instructions that changed:\n" + "\n\n".join(note.text for note in notes.instructions))
    if notes.skills:
        blocks.append("Skills that were loaded; load one again if you still need it:\n" + _listed(notes.skills))
    if notes.changed:
        blocks.append("Files changed so far:\n" + _listed(notes.changed))
    if notes.read:
        blocks.append("Files read so far:\n" + _listed(notes.read))
    return "\n\n".join(blocks)


def fit_notes(notes: Notes, tokens: int) -> Notes:
    """Return the notes within a size: what is oldest and easiest to find again goes first, the goal and rules last."""
    notes = msgspec.structs.replace(
        notes,
        **{name: list(getattr(notes, name)) for name in _LISTS},
    )
    lists: tuple[list[Any], ...] = (
        *(notes.read, notes.steered, notes.changed, notes.skills, notes.jobs, notes.todo),
        *(notes.instructions, notes.rules),  # a change that is dropped is announced again with the next message
    )
    for listed in lists:
        while listed and tokens_in(fixed_block(notes)) > tokens:
            del listed[0]
    if tokens_in(fixed_block(notes)) > tokens:
        notes.goal = ends_of(notes.goal, int(tokens * BYTES_PER_TOKEN), "in this summary")
    return notes


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _paths(calls: Sequence[ToolPart], names: frozenset[str]) -> Iterator[str]:
    for call in calls:
        if call.name in names and call.state == "output-available" and isinstance(call.input, dict):
            path = call.input.get("path") or call.input.get("file_path")
            if isinstance(path, str) and path:
                yield path


def _entries(data: Any) -> list[dict[str, str]]:
    entries = data.get("entries") if isinstance(data, dict) else None
    found = [entry for entry in entries or () if isinstance(entry, dict)]
    return [{name: str(entry[name]) for name in ("content", "status") if name in entry} for entry in found]


def _newest(values: Sequence[str], most: int = _MOST_FILES) -> list[str]:
    """Return the values without repetitions, each at its last place, and only the last ones."""
    return list(reversed(dict.fromkeys(reversed(values))))[-most:]
