"""The skills of an open session: how they are listed to the model, and what loading one permits.

Theory of operation. The files are read when the first client attaches. The index is made once, for the first request,
and then stays: another one would make the provider's cache useless. A skill that is written later can still be loaded
by its name, since the files are read again for a name that is not known. To load a skill of a folder permits to read
that folder, by a rule of the session, which every deny overrides.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.history import COMMAND
from dragoman.builtin.skills.places import skill_places
from dragoman.builtin.tools.tool import ToolError
from dragoman.uistream.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.skills.files import FoundSkills
    from dragoman.builtin.skills.skill import Skill
    from dragoman.builtin.viewer import Viewer
    from dragoman.uistream.messages import UIMessage


_NOTICED: Final = 20


class SessionSkills:
    """The skills of one session."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._cwd = session.row.cwd
        self._found: FoundSkills | None = None
        self._index: str | None = None
        self._noticed: set[str] = set()
        self._has_recalled = False

    async def prepare(self, viewer: Viewer) -> None:
        """Read the files, once, and report to a client what is wrong with them."""
        self._cwd = viewer.cwd
        if self._found is None:
            await self.reread()
        new = [problem for problem in self._problems if problem not in self._noticed]
        self._noticed.update(new)
        if new:
            more = [f"and {len(new) - _NOTICED} more; /skills lists them"] if len(new) > _NOTICED else []
            text = "\n".join([*new[:_NOTICED], *more])
            await viewer.notify("warning", "Not all skills can be used as they are", text)

    async def reread(self) -> FoundSkills | None:
        """Read the files again; None if there are none."""
        self._found = await asyncio.to_thread(self._read)
        return self._found

    def _read(self) -> FoundSkills | None:
        config_dir = self._session.settings.config_dir
        if not skill_places(self._cwd, config_dir):
            return None
        from dragoman.builtin.skills.files import find_skills

        return find_skills(self._cwd, config_dir)

    @property
    def _problems(self) -> tuple[str, ...]:
        return () if self._found is None else self._found.problems

    def known(self) -> dict[str, Skill]:
        """Return the skills of folders, as they were read last, and those that servers list now."""
        skills = {} if self._found is None else dict(self._found.skills)
        servers = self._session.servers
        if servers is not None:
            from dragoman.builtin.skills.of_servers import server_skills

            skills |= server_skills(servers, frozenset(skills))
        return skills

    def settle(self) -> None:
        """Keep the index as it is: the servers are ready, and a request to the model has it from now on."""
        if self._index is None:
            self._index = self.index()

    def index(self) -> str:
        """Return the index for the system prompt, the same after `settle`; empty if there are no skills."""
        if self._index is not None:
            return self._index
        skills = self.known()
        if not skills:
            return ""
        from dragoman.builtin.skills.index import skill_index

        return skill_index(skills.values())

    # Loading

    def named(self, name: str) -> Skill | None:
        """Return the known skill that a model means by this name; others write a slash or the source before it."""
        known, meant = self.known(), name.strip().removeprefix("/")
        return known.get(meant) or known.get(meant.rpartition(":")[2])

    async def find(self, name: str) -> Skill:
        """Return the skill that a model may load under this name. Raises: ToolError that lists what there is."""
        skill = self.named(name)
        if skill is None:
            await self.reread()
            skill = self.named(name)
        if skill is None:
            names = ", ".join(sorted(skill for skill, found in self.known().items() if found.is_for_model))
            raise ToolError(f"there is no skill {name!r}; " + (f"there are: {names}" if names else "there are none"))
        if not skill.is_for_model:
            raise ToolError(f"the skill {skill.name} is only started by the user, with /{skill.name}")
        return skill

    async def text(self, skill: Skill) -> str:
        """Load a skill for the model, and permit to read its folder. Raises: ToolError."""
        if skill.source == "mcp":
            from dragoman.builtin.skills.of_servers import server_skill_text

            if self._session.servers is None:
                raise ToolError(f"the MCP server {skill.server} is gone")
            return await server_skill_text(skill, self._session.servers)
        from dragoman.builtin.skills.loading import skill_text
        from dragoman.builtin.skills.skill import SkillError

        try:
            text = await asyncio.to_thread(skill_text, skill)
        except SkillError as error:
            raise ToolError(f"the skill {skill.name} cannot be used: {error}") from error
        self.permit(skill)
        return text

    def recall(self, history: Sequence[UIMessage]) -> None:
        """Permit again, in a session that was opened again, to read the folders of skills that were loaded before."""
        if self._has_recalled or self._found is None:
            return
        self._has_recalled = True
        for name in loaded_in(history):
            skill = self._found.skills.get(name)
            if skill is not None:
                self.permit(skill)

    def permit(self, skill: Skill) -> None:
        """Permit to read the folder of a skill for the rest of the session.

        Not if it is a project's and reached through a link: the project could name any other folder of its own so.
        """
        if skill.folder and not (skill.root and os.path.realpath(skill.folder) != skill.folder):
            self._session.rules.allow_reading(skill.folder, f"the skill {skill.name}")


def loaded_in(history: Sequence[UIMessage]) -> Iterator[str]:
    """Yield the names of the skills that a model or a user loaded in a conversation."""
    for message in history:
        command = message.metadata.get(COMMAND, {})
        if "<skill name=" in command.get("prompt", ""):
            yield command.get("name", "")
        for part in message.parts:
            if isinstance(part, ToolPart) and part.name == "skill" and part.state == "output-available":
                yield str(part.input.get("name", "")) if isinstance(part.input, dict) else ""
