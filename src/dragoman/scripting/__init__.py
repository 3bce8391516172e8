"""Short ways for scripts: an agent by name, one question, an agent as a tool, ready policies, content from files.

Owns no mechanism: everything here is a few lines over `dragoman.client`, `dragoman.policy` and `dragoman.registry`.
Does not depend on a user interface. Read `reply.py` first. Each name is loaded when first used: a client that only
calls `spawn` starts without rules and files.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.runs.changes import follow_changes
    from dragoman.scripting.content import image, link, resource
    from dragoman.scripting.named import spawn
    from dragoman.scripting.policies import allow_once, deny_all, rules
    from dragoman.scripting.reply import Reply, ask, run
    from dragoman.scripting.tools.agent_tool import AgentTool, as_tool
    from dragoman.scripting.tools.task_agent import TaskProgress, TaskResult

__all__ = [
    "AgentTool",
    "Reply",
    "TaskProgress",
    "TaskResult",
    "allow_once",
    "as_tool",
    "ask",
    "deny_all",
    "follow_changes",
    "image",
    "link",
    "resource",
    "rules",
    "run",
    "spawn",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            "dragoman.runs.changes": ("follow_changes",),
            ".content": ("image", "link", "resource"),
            ".named": ("spawn",),
            ".policies": ("allow_once", "deny_all", "rules"),
            ".reply": ("Reply", "ask", "run"),
            ".tools.agent_tool": ("AgentTool", "as_tool"),
            ".tools.task_agent": ("TaskProgress", "TaskResult"),
        },
    )
