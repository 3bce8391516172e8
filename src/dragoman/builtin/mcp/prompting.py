"""What MCP servers add to a prompt before its turn: the text of a server's prompt, and resources the user mentions.

Owns where both go: the text of a prompt is stored with the message, as that of a template is; a resource becomes a part
of the message. What cannot be read is reported to the user, and to the model where it would miss it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.history import COMMAND
from dragoman.builtin.mcp.resources import mentions_of, read_mention
from dragoman.builtin.tools.tool import ToolError
from dragoman.text.visible import label
from dragoman.uistream.content import RESOURCE
from dragoman.uistream.messages import DataPart, TextPart

if TYPE_CHECKING:
    from dragoman.builtin.mcp.servers import McpServers
    from dragoman.builtin.queued_prompt import QueuedPrompt
    from dragoman.builtin.session import OpenSession
    from dragoman.uistream.messages import UIMessage

LONGEST_SECONDS: Final = 30.0
"""The longest wait for one answer of a server: the turn cannot be cancelled before it has begun."""
_COLUMNS: Final = 200


async def add_from_servers(servers: McpServers, session: OpenSession, prompt: QueuedPrompt, message: UIMessage) -> None:
    """Add what the prompt takes from servers to its message."""
    command = prompt.command
    if command is not None and command.command is not None and command.command.source == "mcp":
        own = {name for name, each in session.commands.items() if each.source != "mcp"}
        message.metadata[COMMAND] = {"name": command.name}  # without a text, no request to a model has it
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                text = await servers.prompt(command.name, command.arguments, own)
        except TimeoutError:
            prompt.answer = f"The prompt was not sent: its server did not answer within {LONGEST_SECONDS:g} s."
        except ToolError as error:
            prompt.answer = f"The prompt was not sent: {error}."
        else:
            message.metadata[COMMAND] = {"name": command.name, "prompt": text}
        return
    words = " ".join(part.text for part in message.parts if isinstance(part, TextPart))
    permissions = prompt.viewer.permissions(session.rules)
    for mention in mentions_of(words, [server.spec.name for server in servers.all]):
        found = await read_mention(mention, servers, prompt.viewer.cwd, permissions.verdict, LONGEST_SECONDS)
        message.parts = [*message.parts, DataPart(RESOURCE, {"uri": found.uri, "text": found.text})]
        if found.problem:
            title = f"{label(f'@{mention.server}:{mention.uri}', _COLUMNS)} could not be read"
            await prompt.viewer.notify("warning", title, found.problem)
