"""Skills that MCP servers offer, which are read when the skill is loaded.

A server that knows the extension for skills lists them (`manifest.py`); of any other, resources `skill://NAME/SKILL.md`
count. Owns their names. A server's skill has the lowest rank: one of the user or the project keeps its name, and so
does that of an earlier server; the other is called `SERVER:NAME`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.builtin.context.command import Command
from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.builtin.skills.loading import shown_text
from dragoman.builtin.skills.skill import DESCRIPTION_CHARACTERS, FILE, NAME_CHARACTERS, Skill
from dragoman.builtin.tools.tool import ToolError
from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from dragoman.builtin.mcp.server import SessionServer
    from dragoman.builtin.mcp.servers import McpServers

_URI: Final = re.compile(r"skill://([a-z0-9]+(?:-[a-z0-9]+)*)/SKILL\.md")
_MOST: Final = 100
_BODY_CHARACTERS: Final = 128 * 1024


def server_skills(servers: McpServers, taken: Container[str] = ()) -> dict[str, Skill]:
    """Return the skills that the servers list now, each by a name of its own.

    Args:
        taken: names that others have.
    """
    found: dict[str, Skill] = {}
    for server in servers.all:
        for skill, path in _listed(server) if server.listing.skills is not None else _by_uri(server):
            names = (skill.name, f"{skill.server}:{skill.name}", f"{skill.server}:{path}")
            name = next((candidate for candidate in names if candidate not in taken and candidate not in found), None)
            if name is not None and len(found) < _MOST:
                found[name] = replace(skill, name=name)
    return found


def _listed(server: SessionServer) -> Iterator[tuple[Skill, str]]:
    for offer in server.listing.skills or ():
        skill = Skill(
            *(offer.name, offer.description, "mcp", offer.uri),
            server=server.spec.name,
            hint=offer.hint,
            allowed_tools=offer.allowed_tools,
            is_for_model=offer.is_for_model,
            is_for_user=offer.is_for_user,
        )
        yield skill, offer.path


def _by_uri(server: SessionServer) -> Iterator[tuple[Skill, str]]:
    for offer in server.listing.resources:
        uri = _URI.fullmatch(offer.uri)
        if uri is not None and not offer.is_template and len(uri[1]) <= NAME_CHARACTERS:
            described = shorten(sentence(offer.description or offer.name), DESCRIPTION_CHARACTERS)
            yield Skill(uri[1], described, "mcp", offer.uri, server=server.spec.name), uri[1]


def server_skill_commands(servers: McpServers, taken: Container[str]) -> dict[str, Command]:
    """Return the commands that start the skills of servers: `/NAME`, or `/SERVER:NAME` if another command has that."""
    return {
        name: Command(
            name, f"{shorten(skill.description, 120)} (MCP: {skill.server})", skill.hint, source="mcp", skill=skill
        )
        for name, skill in server_skills(servers, taken).items()
        if skill.is_for_user and "/" not in name
    }


async def server_skill_text(skill: Skill, servers: McpServers) -> str:
    """Read a skill from its server. Raises: ToolError."""
    server = servers.named(skill.server)
    parts = await server.read(skill.path)
    matter = read_front_matter("\n".join(part.text for part in parts if part.text is not None))
    if not matter.body:
        raise ToolError(f"the skill {skill.name} of the MCP server {skill.server} is empty")
    base = skill.path.removesuffix(FILE)
    files = [
        resource.uri
        for resource in server.listing.resources
        if resource.uri.startswith(base) and resource.uri != skill.path
    ]
    offer = next((listed for listed in server.listing.skills or () if listed.uri == skill.path), None)
    if offer is not None:
        stated = matter.text("name"), shorten(sentence(matter.text("description")), DESCRIPTION_CHARACTERS)
        if stated != (offer.name, offer.description):
            raise ToolError(f"the skill {skill.name} does not state what the MCP server {skill.server} lists of it")
        if offer.files is not None:
            files = [file.uri for file in offer.files if file.uri != skill.path]
    return shown_text(skill, matter.body[:_BODY_CHARACTERS], files)
