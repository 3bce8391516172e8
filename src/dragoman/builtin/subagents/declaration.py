"""A declared agent: its name, when to use it, and what bounds it; and those that are built in. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

from dragoman.builtin.tools.foreign_names import our_tool_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dragoman.builtin.tools.tool import Tool

Source: TypeAlias = Literal["built-in", "user", "project", "settings"]
T = TypeVar("T", bound="Tool")

FOLDER: Final = "agents"
"""Name of the folder with the user's, or a project's, declarations."""
TASK: Final = "task"
# A subagent has no user to talk to: what it does not know, it states in its answer. Its plan is its answer, too.
_NEVER: Final = frozenset({"question", "present_plan"})
# Which of these a model is offered depends on the model. They change files in the same way, with the same permission.
_EDITING: Final = frozenset({"edit", "write", "apply_patch"})
_OF_JOBS: Final = frozenset({"bash_output", "bash_stop"})
_DESCRIPTION_CHARACTERS: Final = 240
_LISTED: Final = 40
# Names under which models know agents of others.
_ALIASES: Final = {"general-purpose": "build", "general": "build", "worker": "build", "explorer": "explore"}


class AgentDeclaration(Struct, frozen=True):
    """One agent that can be a subagent. It bounds what a run may do, and never permits anything."""

    name: str
    description: str
    """When to use it; models read this."""
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    """Names or patterns of its tools; None: all that its parent has."""
    denied_tools: tuple[str, ...] = ()
    model: str = ""
    """Empty: its parent's."""
    mode: str = ""
    """Judges its calls in addition to its parent's mode; empty: the parent's alone."""
    steps: int | None = None
    source: Source = "built-in"
    path: str = ""
    """The file that declares it."""
    agent: str = ""
    """The name of another ACP agent that runs in the sandbox; empty: the built-in agent itself."""

    @property
    def listed(self) -> str:
        """Its line in the list that models are given."""
        mark = " (from the project)" if self.source == "project" else ""
        text = " ".join(self.description.split())
        short = text if len(text) <= _DESCRIPTION_CHARACTERS else f"{text[: _DESCRIPTION_CHARACTERS - 1]}…"
        return f"- {self.name}{mark}: {short}"


class Declared(Struct, frozen=True):
    """The agents by name, in the order in which they are listed, and what is wrong with files, for the user."""

    agents: dict[str, AgentDeclaration] = {}
    problems: tuple[str, ...] = ()


class ChosenTools(Struct, frozen=True):
    """The tools of a run, and names in its declaration that stand for none."""

    tools: dict[str, Tool]
    unknown: tuple[str, ...] = ()


def choose_tools(declared: AgentDeclaration, tools: Mapping[str, Tool], *, may_delegate: bool) -> ChosenTools:
    """Return the tools of a subagent: those of its parent that its declaration names."""
    wanted, unknown = _matching(declared.tools, tools)
    # A tool of which some calls are denied, such as `Bash(rm:*)`, is denied: less cannot be expressed.
    denied, unknown_denied = _matching([name.partition("(")[0] for name in declared.denied_tools], tools)
    chosen = {
        name: tool
        for name, tool in tools.items()
        if (declared.tools is None or name in wanted)
        and name not in denied
        and name not in _NEVER
        and (may_delegate or name != TASK)
    }
    return ChosenTools(chosen, (*unknown, *unknown_denied))


def _matching(names: Iterable[str] | None, tools: Mapping[str, Tool]) -> tuple[set[str], list[str]]:
    found: set[str] = set()
    unknown: list[str] = []
    for name in names or ():
        ours = our_tool_name(name.removeprefix("mcp__").replace("__", "_") if name.startswith("mcp__") else name)
        hits = {tool for tool in tools if fnmatchcase(tool, ours)}
        if not hits and ours not in _NEVER:
            unknown.append(name)
        found |= hits
    if found & _EDITING:
        found |= _EDITING
    if "bash" in found:
        found |= _OF_JOBS
    return found, unknown


def find_agent(name: str, agents: Mapping[str, AgentDeclaration]) -> AgentDeclaration | None:
    """Return the agent of this name, in any case, or under a name that others use; None if there is none."""
    if name in agents:
        return agents[name]
    folded = {agent.casefold(): declared for agent, declared in agents.items()}
    return folded.get(name.casefold()) or agents.get(_ALIASES.get(name.casefold(), ""))


def listing(agents: Mapping[str, AgentDeclaration]) -> str:
    """Return the list of agents for the description of the tool, always in the same order."""
    lines = [declared.listed for declared in agents.values()]
    more = len(lines) - _LISTED
    return "\n".join(["Agents:", *lines[:_LISTED], *([f"- and {more} more; /agents lists them"] if more > 0 else [])])


_ANSWER: Final = "Give file paths with line numbers, and quote what matters; the reader has not seen what you saw."

BUILT_IN: Final = (
    AgentDeclaration(
        "explore",
        "Searches and reads, changes nothing. For questions about the code that need many searches: where something "
        "is, how it works, what depends on it. State how thorough it has to be.",
        "You explore a code base and answer a question about it. Search broadly first, then read what matters. Change "
        f"nothing. {_ANSWER}",
        tools=("read", "glob", "grep", "bash", "web_search", "web_fetch"),
        mode="plan",
    ),
    AgentDeclaration(
        "plan",
        "Reads and makes a plan, changes nothing. For work that touches several files or can be done in several ways.",
        "You plan a change of a code base. Read what is there first. Your answer is the plan: the goal, the files and "
        "what changes in each, the order of the steps, the checks, the risks, and what you could not find out. Change "
        f"nothing. {_ANSWER}",
        denied_tools=("write", "edit", "apply_patch"),
        mode="plan",
    ),
    AgentDeclaration(
        "build",
        "Does a whole task by itself with all tools: changes files, runs commands, checks the result. For a part of "
        "the work that can be described completely.",
        "You do one task completely: read, change, and check that it works. Do not do more than the task asks. Your "
        "answer states what you changed, in which files, how you checked it, and what is left.",
    ),
)
