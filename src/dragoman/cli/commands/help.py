"""`dragoman help`: what `--help` shows, for users who ask for it with a word."""

from __future__ import annotations

from dragoman.cli.command import Argument, CliCall, CliCommand
from dragoman.cli.table import COMMANDS


def run(call: CliCall) -> int:
    from dragoman.cli.main import main

    return main([*call.given.command, "--help"])


COMMAND = CliCommand(
    run=run,
    description="Shows the help of dragoman, or of a command, as --help does.",
    arguments=(
        Argument(
            "command",
            "the command, with its action if that has a help of its own",
            is_optional=True,
            is_repeatable=True,
            suggest=lambda: tuple(COMMANDS),
        ),
    ),
    examples=("dragoman help", "dragoman help exec", "dragoman help agent import"),
)
