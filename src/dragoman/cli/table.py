"""Every verb with its one line, cheap to import; a verb's module is loaded only when somebody asks for it."""

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from dragoman.cli.command import Command

COMMANDS = {
    "agent": "be a coding agent: what an editor starts",
    "agents": "list agents, get one, and find out why one does not run",
    "check": "judge an agent, a client or a recording by the rules of the protocol",
    "completion": "print a completion script for your shell",
    "demo": "show a full turn of the built-in agent, with a scripted model",
    "exec": "send one prompt to an agent, for scripts: one result, one exit code",
    "inspect": "look at a recording: timeline, messages, sessions, broken rules",
    "login": "log in to an agent",
    "logout": "log out of an agent",
    "methods": "list the methods of the protocol",
    "record": "write down what an editor and an agent say to each other",
    "replay": "play a recording: as a fake agent, or as a fake client",
    "rules": "list, explain and change what agents may do without asking",
    "sessions": "list the sessions an agent remembers, or delete one",
    "version": "show the versions of everything that matters",
}

EXAMPLES = (
    "dragoman demo",
    "dragoman exec -a gemini 'What is this project?'",
    "dragoman methods --side agent",
    "dragoman version --json",
    'eval "$(dragoman completion bash)"',
)


def load(verb: str) -> "Command":
    """The command behind a verb of the table."""
    from importlib import import_module

    command: Command = import_module(f"dragoman.cli.commands.{verb}").COMMAND
    return command


def help_text() -> str:
    """What `dragoman --help` prints."""
    width = max(map(len, COMMANDS))
    verbs = "\n".join(f"  {verb:{width}}  {summary}" for verb, summary in COMMANDS.items())
    examples = "\n".join(f"  {example}" for example in EXAMPLES)
    return f"""\
usage: dragoman COMMAND [options]

Speaks the Agent Client Protocol (ACP) between code editors and coding agents.

commands:
{verbs}

options:
  -h, --help     show this help, or that of a command: dragoman COMMAND --help
  -V, --version  show the version

examples:
{examples}
"""
