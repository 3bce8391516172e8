"""Completion scripts for bash, zsh and fish, generated from the declarations of the verbs.

The scripts are static: completion never starts Python. What follows `--` belongs to another program and is left to the
shell's own completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from shlex import quote

from dragoman.cli.command import HELP, CliCommand
from dragoman.cli.table import COMMANDS

Commands = Mapping[str, CliCommand]
TOP = ("--help", "--version")
OWN_WORDS = "not contains -- -- (commandline -opc)"  # true before the first `--`


def bash(commands: Commands) -> str:
    values, words = [], []
    for verb, command in commands.items():
        for option in command.options:
            if option.value:
                pattern = "|".join(quote(f"{verb} {flag}") for flag in option.flags)
                values.append(f"        {pattern}) words={quote(' '.join(option.offered))} ;;")
        flags = [flag for option in (*command.options, HELP) for flag in option.flags]
        fixed = [choice for argument in command.arguments for choice in argument.offered]
        words.append(f"            {verb}) words={quote(' '.join([*fixed, *flags]))} ;;")
    return f"""\
# bash completion for dragoman
_dragoman() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${{COMP_WORDS[i]}} == -- ]] && return
    done
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W {quote(" ".join([*commands, *TOP]))} -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}} $before" in
{_lines(values)}
        *)
            case ${{COMP_WORDS[1]}} in
{_lines(words)}
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _dragoman dragoman
"""


def zsh(commands: Commands) -> str:
    verbs = [f"            {quote(f'{verb}:{_zsh(COMMANDS[verb])}')}" for verb in commands]
    cases = []
    for verb, command in commands.items():
        specs = [
            f"{place}:{argument.name}:({' '.join(argument.offered)})"
            for place, argument in enumerate(command.arguments, 1)
        ]
        for option in (*command.options, HELP):
            value = f":{option.value}:({' '.join(option.offered)})" if option.value else ""
            often = "*" if option.is_repeatable else ""
            specs.extend(f"{often}{flag}[{_zsh(option.help)}]{value}" for flag in option.flags)
        cases.append(f"        {verb}) _arguments {' '.join(map(quote, specs))} ;;")
    return f"""\
#compdef dragoman
_dragoman() {{
    if ((CURRENT == 2)); then
        local -a verbs=(
{_lines(verbs)}
        )
        _describe command verbs
        return
    fi
    if ((${{words[(i)--]}} < CURRENT)); then
        _default
        return
    fi
    local verb=${{words[2]}}
    shift words
    ((CURRENT--))
    case $verb in
{_lines(cases)}
    esac
}}
if [[ $funcstack[1] == _dragoman ]]; then
    _dragoman "$@"
else
    compdef _dragoman dragoman
fi
"""


def fish(commands: Commands) -> str:
    lines = [
        "# fish completion for dragoman",
        f"complete -c dragoman -n '{OWN_WORDS}' -f",
        f"complete -c dragoman -n __fish_use_subcommand -l help -d {_fish(HELP.help)}",
        "complete -c dragoman -n __fish_use_subcommand -l version -d 'show the version'",
    ]
    for verb, command in commands.items():
        lines.append(f"complete -c dragoman -n __fish_use_subcommand -a {verb} -d {_fish(COMMANDS[verb])}")
        seen = (
            f"complete -c dragoman -n '__fish_seen_subcommand_from {verb}; and not contains -- -- (commandline -opc)'"
        )
        lines.extend(f"{seen} -a {_fish(' '.join(argument.offered))}" for argument in command.arguments)
        for option in (*command.options, HELP):
            value = f" -x -a {_fish(' '.join(option.offered))}" if option.value else ""
            names = f"-s {option.short.removeprefix('-')} " if option.short else ""
            names += f"-l {option.flag.removeprefix('--')}"
            lines.append(f"{seen} {names}{value} -d {_fish(option.help)}")
    return "\n".join(lines) + "\n"


WRITERS: dict[str, Callable[[Commands], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _lines(lines: list[str]) -> str:
    return "\n".join(lines)


def _zsh(text: str) -> str:
    """Escape the colons and brackets that `_arguments` and `_describe` split at."""
    return "".join(f"\\{char}" if char in "\\:[]" else char for char in text)


def _fish(text: str) -> str:
    """Quote for fish, whose single quotes have two escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
