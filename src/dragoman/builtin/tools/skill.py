"""`skill`: loads the instructions of a skill, and names its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.long_output import PAGE_LIMIT, fit
from dragoman.builtin.tools.tool import Kind, Location, Preview, Tool, ToolError, ToolOutput
from dragoman.builtin.turn import TurnContext
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.builtin.skills.session_skills import SessionSkills
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

_TITLE_CHARACTERS: Final = 80
# In a session's memory: skills of servers that permission was asked for, by call.
_ASKED: Final = "asked skills of servers"


class SkillArguments(Struct):
    """The skill to load."""

    name: Annotated[str, Meta(description="Name of the skill, from the list.")]


class SkillTool(Tool):
    """The tool that loads skills."""

    name: Final = "skill"
    kind: Final[Kind] = "think"
    arguments: Final = SkillArguments
    description: Final = (
        "Load a skill: the instructions for one kind of task, and the names of its files. Load one that matches the "
        "task before you begin, and follow it as far as it helps the user. A skill that was loaded is not loaded again."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        name = paths.word(arguments, "name")
        return Preview(shorten(f"Skill {name}".strip(), _TITLE_CHARACTERS))

    async def check(self, arguments: SkillArguments, context: ToolContext) -> Preview | None:
        skill = await _skills(context).find(arguments.name)
        if not skill.folder:
            return None
        request = paths.request("read", f"Skill {skill.name}", context, paths=(skill.path, skill.folder))
        verdict = context.verdict(request)
        if verdict.action == "deny":
            raise ToolError(f"the skill {skill.name} may not be read: {verdict.why}")
        return Preview(f"Skill {skill.name}", (Location(skill.path),))

    def requests(self, arguments: SkillArguments, context: ToolContext) -> tuple[Request, ...]:
        """Return no request for the user's and the project's: the user has put them where the agent looks for them."""
        skill = _skills(context).named(arguments.name)
        if skill is None or skill.source != "mcp":
            return ()
        from dragoman.builtin.mcp.resources import read_request

        context.memory.setdefault(_ASKED, set()).add((context.tool_call_id, skill.server, skill.path))
        return (read_request(skill.server, skill.path, context.cwd),)

    async def run(self, arguments: SkillArguments, context: ToolContext) -> ToolOutput:
        skills = _skills(context)
        skill = await skills.find(arguments.name)
        asked = (context.tool_call_id, skill.server, skill.path)
        if skill.source == "mcp" and asked not in context.memory.get(_ASKED, ()):
            raise ToolError(f"the skill {skill.name} was not known yet; make the same call again")
        fitted = await fit(await skills.text(skill), context, PAGE_LIMIT)
        places = (Location(skill.path),) if skill.folder else ()
        return ToolOutput(fitted.text, locations=places, is_truncated=fitted.is_truncated, output_path=fitted.path)


def _skills(context: ToolContext) -> SessionSkills:
    skills = context.skills if isinstance(context, TurnContext) else None
    if skills is None:
        raise ToolError("there are no skills here")
    return skills
