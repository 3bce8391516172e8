"""`dragoman mcp allow` and `deny`: whether a server may ask the user (elicitation) or the model (sampling).

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.agents.display import shown_path
from dragoman.cli.console import write_note
from dragoman.cli.mcp.context import load_servers_here, required_name
from dragoman.settings.edit import edit_settings
from dragoman.settings.servers import MCP_RIGHTS

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall


def allow_server(call: CliCall) -> int:
    is_always = call.given.always
    right = _right(call, "allow")
    if is_always and right != "sampling":
        raise exits.CliError("--always is for sampling", hint="questions to you are always yours to answer")
    return _write(call, right, "always" if is_always else True)


def deny_server(call: CliCall) -> int:
    return _write(call, _right(call, "deny"), None)


def _right(call: CliCall, action: str) -> str:
    right: str | None = call.given.right
    if right not in MCP_RIGHTS:
        raise exits.CliError(
            f"mcp {action} needs a server and one of {', '.join(MCP_RIGHTS)}",
            hint=f"dragoman mcp {action} docs sampling",
        )
    return right


def _write(call: CliCall, right: str, value: Any) -> int:
    name = required_name(call.given.server, call.given.action, "dragoman mcp allow docs sampling")
    servers = load_servers_here()
    if servers.find(name).source != "user":
        raise exits.CliError(
            f"{name} comes from the project, which cannot allow itself anything",
            hint=f"write it in your own settings first: dragoman mcp add {name} ...",
        )
    path = servers.settings.user.path
    with edit_settings(path) as settings:
        entry = settings["mcp_servers"][name]
        entry.pop(right, None)
        if value is not None:
            entry[right] = value
    how = "may not" if value is None else "may always" if value == "always" else "may"
    what = "ask you questions" if right == "elicitation" else "use the model of a session"
    asked = ", and you are asked each time" if value is True and right == "sampling" else ""
    write_note(f"{name} {how} {what}{asked} ({shown_path(str(path))}); new sessions use it")
    return exits.OK
