"""`dragoman completion`: a completion script for a shell."""

import sys

from dragoman.cli import exits, shells, table
from dragoman.cli.command import Argument, CliCall, CliCommand


def run(call: CliCall) -> int:
    write = shells.WRITERS[call.given.shell]
    sys.stdout.write(write({verb: _with_nested(verb) for verb in table.COMMANDS}))
    return exits.OK


def _with_nested(verb: str) -> CliCommand:
    """Return the verb with the arguments and options of its nested commands: scripts look at the first word only."""
    command = table.load(verb)
    words = tuple(name.split()[1] for name in table.NESTED if name.split()[0] == verb)
    if words:  # they stand where the first argument does
        first, *others = command.arguments or (Argument("command", "what to do"),)
        command = command._replace(
            arguments=(first._replace(choices=tuple(dict.fromkeys((*first.choices, *words)))), *others)
        )
    for nested in (table.load(name) for name in table.NESTED if name.split()[0] == verb):
        known = {option.flag for option in command.options}
        command = command._replace(
            arguments=(*command.arguments, *nested.arguments),
            options=(*command.options, *(option for option in nested.options if option.flag not in known)),
        )
    return command


COMMAND = CliCommand(
    run=run,
    description="Prints a completion script for your shell; nothing is installed.",
    arguments=(Argument("shell", "your shell", choices=tuple(shells.WRITERS)),),
    examples=(
        'eval "$(dragoman completion bash)"              # in ~/.bashrc',
        'eval "$(dragoman completion zsh)"               # in ~/.zshrc, after compinit',
        "dragoman completion fish | source               # in ~/.config/fish/config.fish",
    ),
)
