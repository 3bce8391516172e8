"""`dragoman help`: what `--help` shows, for users who ask for it with a word."""

from __future__ import annotations

from dragoman.cli.command import Argument, CliCall, CliCommand
from dragoman.cli.table import COMMANDS


def run(call: CliCall) -> int:
    from dragoman.cli.main import main

    words = list(call.given.command)
    all_of_it = ["all"] if words[-1:] == ["all"] else []
    return main([*words[: len(words) - len(all_of_it)], "--help", *all_of_it])


COMMAND = CliCommand(
    run=run,
    description="Shows the help of dragoman, or of a command, as --help does; with `all` at the end, all of it.",
    arguments=(
        Argument(
            "command",
            "the command, with its action if that has a help of its own",
            is_optional=True,
            is_repeatable=True,
            suggest=lambda: tuple(COMMANDS),
        ),
    ),
    examples=("dragoman help", "dragoman help exec", "dragoman help exec all", "dragoman help agent import"),
)
