"""`dragoman agents`: lists, adds, installs, accepts and examines agents. Each action has a module in `cli/agents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.suggestions import agent_names

if TYPE_CHECKING:
    from collections.abc import Callable

# Action -> the options it takes.
ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    "list": ("registry", "json"),
    "show": ("json",),
    "add": ("env", "default", "replace", "wrap"),
    "remove": (),
    "install": ("distribution", "without_checksum", "python", "default", "yes", "json"),
    "accept": ("mcp", "hook", "yes", "json"),
    "doctor": ("timeout", "json"),
    "update": ("json",),
}
_LOOK: Final = ("json",)
"""What `dragoman agents` takes without an action."""
_SEE_HELP: Final = "see dragoman agents --help"


def run(call: CliCall) -> int:
    given = call.given
    taken = ACTIONS[given.action] if given.action else _LOOK
    words = f"agents {given.action}" if given.action else "agents without a word"
    for option in COMMAND.options:
        name = option.flag.removeprefix("--").replace("-", "_")
        if getattr(given, name) not in (None, False, []) and name not in taken:
            raise exits.CliError(f"{words} does not take {option.flag}", hint=_SEE_HELP)
    if call.program is not None and given.action not in ("add", "doctor"):
        raise exits.CliError(f"{words} does not take a command after --", hint=_SEE_HELP)
    if given.action == "list" and given.name is not None:
        raise exits.CliError("agents list does not take a name", hint=f"dragoman agents show {given.name}")
    return _function(given.action)(call)


def _function(action: str | None) -> Callable[[CliCall], int]:
    """Return the function of an action; the modules of the others are not imported."""
    match action:
        case None:
            from dragoman.cli.agents.list import look_here as function
        case "list":
            from dragoman.cli.agents.list import list_agents as function
        case "show":
            from dragoman.cli.agents.show import show_agent as function
        case "add":
            from dragoman.cli.agents.add import add_agent as function
        case "remove":
            from dragoman.cli.agents.remove import remove_agent as function
        case "install":
            from dragoman.cli.agents.install import install_agent as function
        case "accept":
            from dragoman.cli.agents.accept import accept_proposal as function
        case "doctor":
            from dragoman.cli.agents.doctor import examine_agent as function
        case _:
            from dragoman.cli.agents.update import update_registry as function
    return function


COMMAND = CliCommand(
    run=run,
    description=(
        "Manages agents and their names. Agents come from your settings, from Zed and JetBrains, from the ACP\n"
        "registry and from the project; well-known ones (claude, codex, gemini...) work by name when their program is\n"
        "on the PATH; `dragoman` and `scripted` are built in. docs/agents.md describes the files.\n"
        "Without an action, what is there to work with: agents with their logins, keys in the environment (their\n"
        "names), model servers that answer on this machine, and agents that can be installed.\n"
        "  list     list all agents with version and login, and those that could be installed; with --registry, the\n"
        "           agents of the ACP registry\n"
        "  show     show what is known about an agent\n"
        "  add      add an agent to your settings\n"
        "  remove   remove an agent from your settings, delete an installed one, or withdraw what was accepted\n"
        "  install  install a well-known agent or one of the registry, in one exact version (NAME or NAME@VERSION)\n"
        "  accept   accept an agent that the project proposes, with --mcp an MCP server, with --hook a hook; or\n"
        "           confirm that a well-known agent may be downloaded when it is first used\n"
        "  doctor   check what an agent needs, start it, and show its answer to initialize\n"
        "  update   fetch the registry, from its usual address or from the file or address given"
    ),
    arguments=(
        Argument("action", "what to do", choices=tuple(ACTIONS), is_optional=True),
        Argument("name", "name of the agent; for update, a file or an address", is_optional=True, suggest=agent_names),
    ),
    options=(
        CliOption("--registry", "list: the agents of the ACP registry"),
        CliOption("--env", "add: an environment variable for the agent", value="NAME=VALUE", is_repeatable=True),
        CliOption("--default", "add, install: make it the default agent"),
        CliOption("--replace", "add: overwrite an entry with the same name"),
        CliOption(
            "--wrap",
            "add: wrap an object or a URL, as dragoman wrap does, with its options after --; or a command after --",
            value="SOURCE",
            has_optional_value=True,
        ),
        CliOption("--distribution", "install: the kind of package", value="FORM", choices=("npx", "uvx", "binary")),
        CliOption("--without-checksum", "install: accept an archive for which the registry lists no sha256"),
        CliOption(
            "--python",
            "install: the Python for a Python package (default: one that fits is looked for)",
            value="PROGRAM",
        ),
        CliOption("--mcp", "accept: accept an MCP server instead of an agent"),
        CliOption("--hook", "accept: accept a hook of the project instead of an agent"),
        CliOption("--yes", "accept, install: do not ask for confirmation"),
        CliOption("--timeout", "doctor: how long to wait for the agent's answer (default: 60)", value="SECONDS"),
        JSON,
    ),
    examples=(
        "dragoman agents",
        "dragoman agents list",
        "dragoman agents list --registry --json",
        "dragoman agents show gemini",
        "dragoman agents add mine --env MY_KEY=secret --default -- my-agent --acp",
        "dragoman agents add mine --wrap my_agent:agent",
        "dragoman agents add todo --wrap -- aider --yes --message {prompt}",
        "dragoman agents add chat --wrap http://127.0.0.1:8080/v1 -- --model qwen3",
        "dragoman agents install gemini",
        "dragoman agents install gemini@0.61.0 --distribution npx",
        "dragoman agents accept project-agent",
        "dragoman agents accept gemini --yes",
        "dragoman agents doctor gemini",
        "dragoman agents doctor -- npx -y @google/gemini-cli --acp",
        "dragoman agents update",
        "dragoman agents remove mine",
    ),
    takes_program=True,
)
