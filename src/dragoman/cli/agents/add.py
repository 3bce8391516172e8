"""`dragoman agents add`: writes an agent into the user's settings, or makes a known agent the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here, required_name
from dragoman.cli.agents.display import shown_path
from dragoman.cli.console import write_note
from dragoman.settings.edit import edit_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import Agents


def add_agent(call: CliCall) -> int:
    name = required_name(call.given.name, "add", "dragoman agents add mine -- my-agent --acp")
    agents = load_agents_here()
    if call.program is None and call.given.default and call.given.wrap is None:
        make_default(agents, agents.find(name).name)
        return exits.OK
    command = call.program if call.given.wrap is None else _wrapping(call)
    if not command:
        raise exits.CliError(
            "agents add needs the agent's command after --", hint=f"dragoman agents add {name} -- my-agent --acp"
        )
    _check_name(name, agents, may_replace=call.given.replace)
    entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
    if call.given.env:
        entry["env"] = dict(map(_variable, call.given.env))
    with edit_settings(agents.settings.user.path) as settings:
        settings.setdefault("agent_servers", {})[name] = entry
        if call.given.default:
            settings["default_agent"] = name
    where = shown_path(str(agents.settings.user.path))
    default = " as the default agent" if call.given.default else ""
    write_note(f"{name} was added to {where}{default}; try it with: dragoman agents doctor {name}")
    return exits.OK


def _wrapping(call: CliCall) -> Sequence[str]:
    """Return the command that wraps an object, an endpoint or a command-line tool, for any folder. Raises: CliError."""
    from dragoman.cli.command import parse
    from dragoman.cli.commands.wrap import COMMAND, wrap_command
    from dragoman.cli.wrap.source import check_words

    words = [call.given.wrap] if call.given.wrap else ["--"]
    wrapping = parse("wrap", COMMAND, [*words, *(call.program or ())])
    check_words(wrapping)
    if wrapping.given.print_settings is not None:
        raise exits.CliError("agents add --wrap does not take --print-settings", hint="see dragoman wrap --help")
    return wrap_command(wrapping)


def make_default(agents: Agents, name: str) -> None:
    """Make an agent the one that is used when none is named."""
    with edit_settings(agents.settings.user.path) as settings:
        settings["default_agent"] = name
    write_note(f"{name} is now the default agent ({shown_path(str(agents.settings.user.path))})")


def _check_name(name: str, agents: Agents, *, may_replace: bool) -> None:
    from dragoman.registry.agents import RESERVED
    from dragoman.settings.servers import wrong_agent_name

    if why := wrong_agent_name(name):
        raise exits.CliError(why, hint="choose another name")
    if name.casefold() in RESERVED:
        raise exits.CliError(f"the name {name!r} is reserved", hint="choose another name")
    if name in agents.settings.user.servers and not may_replace:
        raise exits.CliError(
            f"{name} is already in {agents.settings.user.path}",
            hint="overwrite it with --replace, or choose another name",
        )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise exits.CliError(f"--env takes NAME=VALUE, not {text!r}", hint="see dragoman agents --help")
    return name, value
