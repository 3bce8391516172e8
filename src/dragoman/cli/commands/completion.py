"""`dragoman completion`: a completion script for a shell."""

import sys

from dragoman.cli import exits, shells, table
from dragoman.cli.command import Argument, CliCommand, Invocation


def run(call: Invocation) -> int:
    write = shells.WRITERS[call.given.shell]
    sys.stdout.write(write({verb: table.load(verb) for verb in table.COMMANDS}))
    return exits.OK


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
