"""Every verb with its summary, cheap to import; a verb's module is loaded when the verb is used."""

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.command import CliCommand

COMMANDS = {
    "agent": "run the built-in coding agent, for an editor",
    "agents": "list and install agents, and find out why one does not run",
    "attach": "talk with an agent in this terminal, in a new session or in one that runs",
    "audit": "verify, show and export the audit log of the guard",
    "check": "test an agent, a client or a recording against the rules of the protocol",
    "compare": "give several agents the same prompt, each in its own copy of the project",
    "completion": "print a completion script for your shell",
    "conduct": "run an agent with proxies in front of it, a chain (unstable draft)",
    "connect": "bridge an editor to an agent or a host on another machine",
    "demo": "show a full turn of the built-in agent, with a scripted model",
    "doctor": "show what works on this machine and what is missing, of all agents here",
    "eval": "give an agent coding tasks, judge what it did, and compare agents",
    "exec": "send one prompt to an agent, for scripts",
    "fleet": "run a host: its users, sessions and limits, for administrators",
    "guard": "put rules, limits and an audit log around an agent",
    "help": "show this help, or that of a command",
    "inspect": "show a recording: timeline, messages, sessions, broken rules",
    "login": "log in to an agent",
    "logout": "log out of an agent",
    "mcp": "list, add and test MCP servers, log in to them; offer an agent as one",
    "record": "record the messages between an editor and an agent",
    "replay": "play a recording as a fake agent or a fake client",
    "rules": "list, explain and change what agents may do without asking",
    "serve": "run agents for other machines: a host with tokens, whose sessions outlive connections",
    "sessions": "list, show, search and export the sessions of all agents",
    "translate": "run an agent of one version of the protocol behind an editor of another",
    "version": "show the versions of dragoman, Python and the protocol, and its methods",
    "web": "show all sessions in a browser: on this machine, a phone, another computer",
    "worktrees": "list the copies that agents worked in, merge or discard their changes",
    "wrap": "serve a function, framework agent, endpoint or command as an ACP agent",
}

NESTED = {
    "agent import": "carry over what you have set up for other coding agents",
    "serve backup": "save the sessions, tokens and files of a host, also while it runs",
    "serve restore": "put a backup into the data folder of a host",
    "serve audit": "print who did what at a host: prompts, answers, rules, cancels, settings",
}
"""Actions of a verb that have arguments, options and a help of their own."""

FORMER = {"methods": ("version", "--methods")}
"""Verbs of earlier versions, and what they are now; they work, and nothing lists them."""

USE = ("attach", "exec", "sessions", "web", "agents", "login", "rules", "compare", "worktrees", "doctor")
"""The commands of people who use agents: those that a newcomer sees, the most used first."""

GROUPS = {
    "for agents in editors and on servers": (
        "agent",
        "guard",
        "audit",
        "serve",
        "fleet",
        "connect",
        "translate",
        "conduct",
    ),
    "for people who build agents and clients": ("wrap", "mcp", "record", "replay", "inspect"),
    "for people who check and measure agents": ("check", "eval"),
    "this program itself": ("help", "demo", "logout", "completion", "version"),
}
"""All other commands, by what their users want to do."""

EXAMPLES = (
    "dragoman",
    "dragoman exec -a claude 'What is this project?'",
    "git diff | dragoman exec 'Review this:'",
)


def load(verb: str) -> "CliCommand":
    """Import a verb's module and return its command."""
    from importlib import import_module

    command: CliCommand = import_module(f"dragoman.cli.commands.{verb.replace(' ', '_')}").COMMAND
    return command


def help_text(*, shows_all: bool = False) -> str:
    """Return what `dragoman --help` prints; with `shows_all`, a line for every command."""
    examples = "\n".join(f"  {example}" for example in EXAMPLES)
    return f"""\
usage: dragoman [FOLDER] [-a AGENT]   talk with an agent in this terminal
       dragoman COMMAND [options]     do one thing, as below

Talk with coding agents, decide what they may do, review and take back what they did.
It speaks the Agent Client Protocol (ACP): any agent, in terminals, scripts and editors.

use agents:
{_rows(USE)}

{_other_groups(shows_all=shows_all)}

options:
  -h, --help     show this help; dragoman COMMAND --help shows that of a command
  -V, --version  show the version

examples:
{examples}
"""


def _rows(names: "Sequence[str]") -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(f"  {name:{width}}  {COMMANDS[name]}" for name in names)


def _other_groups(*, shows_all: bool) -> str:
    if shows_all:
        return "\n\n".join(f"{title}:\n{_rows(names)}" for title, names in GROUPS.items())
    width = max(map(len, GROUPS))
    rows = "\n".join(f"  {title:{width}}  {' '.join(names)}" for title, names in GROUPS.items())
    return f"build, host and check agents (dragoman --help all has a line about each):\n{rows}"
