"""What a hook answered: read from its exit code and from the JSON that it printed. Pure.

The form is the one that Claude Code, Codex and Gemini CLI share. Exit code 0: the JSON on stdout counts, if there is
any. Exit code 2: a refusal, with stderr as the reason. Everything else, a time limit included, is a failure: before a
tool call that means that the user is asked, because a check that cannot run has not passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.text.terminal import plain, shorten

if TYPE_CHECKING:
    from dragoman.process.finished import Finished

Wish: TypeAlias = Literal["", "allow", "ask", "deny"]
_WISHES: Final[dict[str, Wish]] = {
    "allow": "allow",
    "approve": "allow",
    "ask": "ask",
    "ask_user": "ask",
    "deny": "deny",
    "block": "deny",
}
_MOST_CHARACTERS: Final = 10_000


class HookAnswer(Struct, frozen=True):
    """One hook's answer."""

    wish: Wish = ""
    reason: str = ""
    context: str = ""
    """Text for the model, next to what the hook was about."""
    notice: str = ""
    """Text for the user."""
    new_input: Mapping[str, Any] | None = None
    new_output: str | None = None
    ends_turn: bool = False
    failure: str = ""
    """Why the hook gave no answer; a sentence for the user."""


def read_answer(finished: Finished, timeout_seconds: float) -> HookAnswer:
    """Return the answer of a command that has ended."""
    if finished.timed_out:
        return HookAnswer(failure=f"it was ended after {timeout_seconds:g} seconds")
    if finished.returncode == 2:
        return HookAnswer("deny", _words(finished.stderr) or "a hook refuses it")
    if finished.returncode != 0:
        words = _words(finished.stderr)
        return HookAnswer(failure=f"it ended with {finished.returncode}{f': {words}' if words else ''}")
    text = finished.stdout.strip()
    if not text.startswith("{"):
        return HookAnswer(context=_words(text))
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return HookAnswer(failure=f"its JSON cannot be read: {error}")
    return _from_json(found) if isinstance(found, dict) else HookAnswer()


def _from_json(found: dict[str, Any]) -> HookAnswer:
    inner = found.get("hookSpecificOutput")
    inner = inner if isinstance(inner, dict) else {}
    word = inner.get("permissionDecision", found.get("decision"))
    reason = inner.get("permissionDecisionReason", found.get("reason"))
    new_input = inner.get("updatedInput", inner.get("tool_input"))
    new_output = inner.get("updatedToolOutput")
    ends = found.get("continue") is False
    if word is not None and not (isinstance(word, str) and word in _WISHES):
        return HookAnswer(failure=f"its decision {shorten(str(word), 40)!r} is unknown; use allow, ask or deny")
    return HookAnswer(
        "deny" if ends else _WISHES.get(str(word), ""),
        _words(found.get("stopReason") if ends else reason),
        _words(inner.get("additionalContext", found.get("additionalContext"))),
        _words(found.get("systemMessage")),
        new_input if isinstance(new_input, dict) else None,
        new_output if isinstance(new_output, str) else None,
        ends,
    )


def _words(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    text = plain(value).strip()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
