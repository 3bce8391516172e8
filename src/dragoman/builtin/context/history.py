"""The conversation as the model is given it: a part of what is stored.

Leaves out everything before the last `/clear`, and commands that the agent answered by itself; a command that has a
template is replaced by its text. Nothing stored changes: a client that loads the session sees all of it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.uistream.messages import TextPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND: Final = "command"
"""Key in the metadata of a user message: `{"name", "prompt"?}`. Without a prompt the agent answered by itself."""
CLEAR: Final = "clear"


def model_view(history: Sequence[UIMessage]) -> tuple[UIMessage, ...]:
    """Return the messages for the model, oldest first."""
    seen: list[UIMessage] = []
    is_for_agent = False
    for message in history:
        if message.role == "user":
            command = message.metadata.get(COMMAND, {})
            is_for_agent = "name" in command and "prompt" not in command
            if is_for_agent and command["name"] == CLEAR:
                seen.clear()
            elif "prompt" in command:
                message = _expanded(message, str(command["prompt"]))
        if not is_for_agent:
            seen.append(message)
    return tuple(seen)


def _expanded(message: UIMessage, text: str) -> UIMessage:
    """The message with the expanded text of its command in place of the command."""
    rest = message.parts[1:] if message.parts and isinstance(message.parts[0], TextPart) else message.parts
    return msgspec.structs.replace(message, parts=[TextPart(text), *rest])
