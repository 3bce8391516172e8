"""`dragoman agents`: which agents there are, how to get one, and what is wrong with one that does not run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.suggestions import agent_names

if TYPE_CHECKING:
    from collections.abc import Callable

# Action -> where it is done, and the options it takes.
ACTIONS: Final = {
    "list": ("list", "list_agents", ("registry", "json")),
    "show": ("list", "show_agent", ("json",)),
    "add": ("edit", "add_agent", ("env", "default", "replace")),
    "remove": ("edit", "remove_agent", ()),
    "install": ("install", "install_agent", ("distribution", "without_checksum", "python", "default", "json")),
    "accept": ("edit", "accept_proposal", ("mcp", "yes", "json")),
    "doctor": ("doctor", "examine_agent", ("timeout", "json")),
    "update": ("install", "update_registry", ("json",)),
}


def run(call: CliCall) -> int:
    given = call.given
    if given.action is None:
        raise exits.CliError("agents does what?", hint=f"one of {', '.join(ACTIONS)}; see dragoman agents --help")
    module, function, taken = ACTIONS[given.action]
    for option in COMMAND.options:
        name = option.flag.removeprefix("--").replace("-", "_")
        if getattr(given, name) not in (None, False, []) and name not in taken:
            raise exits.CliError(f"agents {given.action} takes no {option.flag}", hint="see dragoman agents --help")
    if call.program is not None and given.action not in ("add", "doctor"):
        raise exits.CliError(f"agents {given.action} takes no command after --", hint="see dragoman agents --help")
    if given.action == "list" and given.name is not None:
        raise exits.CliError("agents list takes no name", hint=f"dragoman agents show {given.name}")
    action: Callable[[CliCall], int] = getattr(import_module(f"dragoman.cli.agents.{module}"), function)
    return action(call)


COMMAND = CliCommand(
    run=run,
    description=(
        "Agents by name: from your settings, from Zed and JetBrains, from the project, installed from the ACP\n"
        "registry, and the built-in `scripted` one. docs/agents.md describes the files and who may say what.\n"
        "  list     all of them, or with --registry those that could be installed\n"
        "  show     what is known about one\n"
        "  add      write an agent's command into your settings\n"
        "  remove   take it out of them, or delete what was installed\n"
        "  install  get one from the registry, in one exact version (NAME or NAME@VERSION)\n"
        "  accept   let an agent (or with --mcp a server) run that the project brings, after a look at its command\n"
        "  doctor   what is missing to run it and how to get it; starts it and shows what it says\n"
        "  update   fetch the registry again, or from another file or address"
    ),
    arguments=(
        Argument("action", "what to do", choices=tuple(ACTIONS), is_optional=True),
        Argument("name", "an agent; for update a file or an address", is_optional=True, suggest=agent_names),
    ),
    options=(
        CliOption("--registry", "list: the agents of the ACP registry"),
        CliOption("--env", "add: a variable for the agent", value="NAME=VALUE", is_repeatable=True),
        CliOption("--default", "add, install: use it when no agent is named"),
        CliOption("--replace", "add: write over an entry of that name"),
        CliOption("--distribution", "install: in which form", value="FORM", choices=("npx", "uvx", "binary")),
        CliOption("--without-checksum", "install: also an archive that the registry tells no sha256 of"),
        CliOption("--python", "install: the Python for an agent written in it", value="PROGRAM"),
        CliOption("--mcp", "accept: an MCP server instead of an agent"),
        CliOption("--yes", "accept: do not ask"),
        CliOption("--timeout", "doctor: how long the agent may take to answer (default: 60)", value="SECONDS"),
        JSON,
    ),
    examples=(
        "dragoman agents list",
        "dragoman agents list --registry --json",
        "dragoman agents show gemini",
        "dragoman agents add mine --env MY_KEY=secret --default -- my-agent --acp",
        "dragoman agents install gemini",
        "dragoman agents install gemini@0.61.0 --distribution npx",
        "dragoman agents accept project-agent",
        "dragoman agents doctor gemini",
        "dragoman agents doctor -- npx -y @google/gemini-cli --acp",
        "dragoman agents update",
        "dragoman agents remove mine",
    ),
    takes_program=True,
)
