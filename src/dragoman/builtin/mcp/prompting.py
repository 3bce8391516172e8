"""What MCP servers add to a prompt before its turn: the text of a server's prompt or skill, and mentioned resources.

Owns where both go: the text of a prompt is stored with the message, as that of a template is; a resource becomes a part
of the message. What cannot be read is reported to the user, and to the model where it would miss it. Loaded where a
session has MCP servers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.history import COMMAND
from dragoman.builtin.mcp.resources import mentions_of, read_mention, read_request
from dragoman.builtin.tools.tool import ToolError
from dragoman.text.visible import label
from dragoman.uistream.content import RESOURCE
from dragoman.uistream.messages import DataPart, TextPart

if TYPE_CHECKING:
    from dragoman.builtin.mcp.servers import McpServers
    from dragoman.builtin.queued_prompt import QueuedPrompt
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.skills.skill import Skill
    from dragoman.uistream.messages import UIMessage

LONGEST_SECONDS: Final = 30.0
"""The longest wait for one answer of a server: the turn cannot be cancelled before it has begun."""
_COLUMNS: Final = 200


async def add_from_servers(servers: McpServers, session: OpenSession, prompt: QueuedPrompt, message: UIMessage) -> None:
    """Add what the prompt takes from servers to its message."""
    command = prompt.command
    if command is not None and command.command is not None and command.command.source == "mcp":
        own = {name for name, command in session.commands.items() if command.source != "mcp"}
        message.metadata[COMMAND] = {"name": command.name}  # without a text, no request to a model has it
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                if command.command.skill is not None:
                    text = await _skill(command.command.skill, command.arguments, servers, session, prompt)
                else:
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


async def _skill(skill: Skill, words: str, servers: McpServers, session: OpenSession, prompt: QueuedPrompt) -> str:
    """Return the text of a skill that the user starts. Raises: ToolError, also if a rule denies to read it."""
    from dragoman.builtin.skills.of_servers import server_skill_text

    request = read_request(skill.server, skill.path, prompt.viewer.cwd)
    verdict = prompt.viewer.permissions(session.rules).verdict(request)
    if verdict.action == "deny":
        raise ToolError(f"a rule does not allow to read the skill: {verdict.why}")
    text = f"Work with this skill, which I start:\n\n{await server_skill_text(skill, servers)}"
    return f"{text}\n\n{words}" if words else text
