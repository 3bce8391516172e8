"""`/agents`: the agents that can be subagents, where each is declared, what bounds it, and what is wrong with files.

Loaded when the command is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.builtin.subagents.declaration import TASK, choose_tools
from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.subagents.declaration import AgentDeclaration


async def show_agents(arguments: str, session: OpenSession) -> str:
    """Read the declarations again and list them."""
    if session.servers is not None:
        await session.servers.ready()  # their tools can be named too
    declared = await session.subagents.reread()
    lines = [_described(agent, session) for agent in declared.agents.values()]
    problems = [f"- {sentence(problem)}" for problem in declared.problems]
    if problems:
        lines += ["", "Not as they should be:", *problems]
    folders = f"{session.settings.config_dir / 'agents'} and .dragoman/agents of the project"
    return "\n".join([*lines, "", f"Agents are declared in {folders}."])


def _described(declared: AgentDeclaration, session: OpenSession) -> str:
    facts = [declared.source if not declared.path else f"{declared.source}, {declared.path}"]
    if declared.agent:
        facts.append(f"the agent {declared.agent}, in the sandbox")
    else:
        chosen = choose_tools(declared, session.tools, may_delegate=True)
        left_out = [name for name in session.tools if name not in chosen.tools and name != TASK]
        is_all = declared.tools is None and not declared.denied_tools
        facts.append("all tools" if is_all else f"tools: {', '.join(chosen.tools) or 'none'}")
        if declared.tools is None and declared.denied_tools:
            facts[-1] = f"all tools but {', '.join(left_out)}"
        if chosen.unknown:
            facts.append(f"no such tools: {', '.join(chosen.unknown)}")
    facts += [f"{name} {value}" for name, value in (("mode", declared.mode), ("model", declared.model)) if value]
    if declared.steps is not None:
        facts.append(f"at most {declared.steps} steps")
    about = "; ".join(sentence(fact) for fact in facts)
    return f"- `{declared.name}` {sentence(declared.description)} ({about})"
