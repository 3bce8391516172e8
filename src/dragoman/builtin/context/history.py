"""The conversation as the model is given it: a part of what is stored.

Leaves out everything before the last `/clear`, and commands that the agent answered by itself; a command that has a
template is replaced by its text. Nothing stored changes: a client that loads the session sees all of it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.uistream.messages import Message, TextPart

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND: Final = "command"
"""Key in the metadata of a user message: `{"name", "prompt"?}`. Without a prompt the agent answered by itself."""
CLEAR: Final = "clear"


def model_view(history: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages for the model, oldest first."""
    cleared = [number for number, message in enumerate(history) if _own_command(message) == CLEAR]
    seen: list[Message] = []
    is_aside = False
    for message in history[cleared[-1] if cleared else 0 :]:
        if message.role == "user":
            is_aside = _own_command(message) is not None
        if not is_aside:
            seen.append(_expanded(message))
    return tuple(seen)


def is_for_model(message: Message) -> bool:
    """Whether a message of the user is for the model, as it is or expanded."""
    return message.role == "user" and _own_command(message) is None


def _own_command(message: Message) -> str | None:
    command = _command(message)
    return None if command is None or "prompt" in command else str(command.get("name"))


def _expanded(message: Message) -> Message:
    command = _command(message)
    if command is None or "prompt" not in command:
        return message
    rest = message.parts[1:] if message.parts and isinstance(message.parts[0], TextPart) else message.parts
    return msgspec.structs.replace(message, parts=[TextPart(str(command["prompt"])), *rest])


def _command(message: Message) -> dict[str, Any] | None:
    command = message.metadata.get(COMMAND) if message.role == "user" else None
    return command if isinstance(command, dict) else None
