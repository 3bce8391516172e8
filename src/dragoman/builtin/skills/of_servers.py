"""Skills that MCP servers offer: resources `skill://NAME/SKILL.md`, which are read when the skill is loaded.

Owns which resources count. A server's skill has the lowest rank: one of the user or the project keeps its name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.command import Command
from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.builtin.skills.loading import shown_text
from dragoman.builtin.skills.skill import DESCRIPTION_CHARACTERS, NAME_CHARACTERS, Skill
from dragoman.builtin.tools.tool import ToolError
from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from collections.abc import Container

    from dragoman.builtin.mcp.servers import McpServers

_URI: Final = re.compile(r"skill://([a-z0-9]+(?:-[a-z0-9]+)*)/SKILL\.md")
_MOST: Final = 100
_BODY_CHARACTERS: Final = 128 * 1024


def server_skills(servers: McpServers) -> dict[str, Skill]:
    """Return the skills that the servers list now; of two with one name the first counts."""
    found: dict[str, Skill] = {}
    for server in servers.all:
        for offer in server.listing.resources:
            uri = _URI.fullmatch(offer.uri)
            if uri is None or offer.is_template or len(uri[1]) > NAME_CHARACTERS or len(found) == _MOST:
                continue
            described = shorten(sentence(offer.description or offer.name), DESCRIPTION_CHARACTERS)
            skill = Skill(uri[1], described, "mcp", offer.uri, server=server.spec.name)
            found.setdefault(uri[1], skill)
    return found


def server_skill_commands(servers: McpServers, taken: Container[str]) -> dict[str, Command]:
    """Return the commands `/NAME` that start the skills of servers; any other command of that name keeps it."""
    return {
        name: Command(name, f"{shorten(skill.description, 120)} (MCP: {skill.server})", source="mcp", skill=skill)
        for name, skill in server_skills(servers).items()
        if name not in taken
    }


async def server_skill_text(skill: Skill, servers: McpServers) -> str:
    """Read a skill from its server. Raises: ToolError."""
    server = servers.named(skill.server)
    parts = await server.read(skill.path)
    body = read_front_matter("\n".join(part.text for part in parts if part.text is not None)).body
    if not body:
        raise ToolError(f"the skill {skill.name} of the MCP server {skill.server} is empty")
    base = skill.path.removesuffix("SKILL.md")
    files = [each.uri for each in server.listing.resources if each.uri.startswith(base) and each.uri != skill.path]
    return shown_text(skill, body[:_BODY_CHARACTERS], files)
