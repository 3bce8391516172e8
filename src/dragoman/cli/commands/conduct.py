"""`dragoman conduct`: an agent with proxies in front of it, a chain."""

from __future__ import annotations

from dragoman.cli import exits
from dragoman.cli.command import Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json
from dragoman.cli.masked_streams import mask_stored_keys

_SEE_HELP = "see dragoman conduct --help"


def run(call: CliCall) -> int:
    links = [_words(link) for link in call.given.link]
    if not links and not call.program:
        raise exits.CliError(
            "conduct needs links, an agent's command, or both", hint="dragoman conduct 'python link.py' -- gemini --acp"
        )
    if call.program is not None and not call.program:
        raise exits.CliError("there is no command after --", hint=_SEE_HELP)
    if call.given.print_settings:
        return _print_settings(call)
    mask_stored_keys()
    import asyncio

    from dragoman.errors import DragomanError
    from dragoman.proxy.conduct import run_chain

    try:
        return asyncio.run(run_chain(links, call.program))
    except DragomanError as error:
        raise exits.CliError(str(error), exit_code=exits.AGENT_DIED) from error


def _words(link: str) -> list[str]:
    """Return the command of a link, which is one argument, as a shell would split it."""
    import shlex

    try:
        words = shlex.split(link)
    except ValueError as error:
        raise exits.CliError(f"the link {link!r} is not a command: {error}", hint=_SEE_HELP) from None
    if not words:
        raise exits.CliError("a link is empty; each one is a command, quoted as one argument", hint=_SEE_HELP)
    return words


def _print_settings(call: CliCall) -> int:
    import os

    program = call.program or ()
    name = os.path.basename(program[0]) if program else "chain"
    words = ["conduct", *call.given.link, *(["--", *program] if program else [])]
    server = {"command": "dragoman", "args": words, "env": {}}
    write_json({"agent_servers": {name: server}})
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Runs a chain: an agent and, between it and the editor, proxies that may read and change messages. Each\n"
        "link is a command, quoted as one argument; the first one is next to the editor. Put this in front of the\n"
        "agent's command in the editor's settings. A message passes every link; when one ends or breaks the rules,\n"
        "the whole chain ends. Proxy chains are an unstable draft of the protocol; both spellings of its methods are\n"
        "spoken (proxy/..., _proxy/...). Without an agent the chain is itself a link of another one. See\n"
        "docs/chains.md. The exit code is the agent's, or 4 if a link was the reason."
    ),
    arguments=(
        Argument("link", "the command of a link, quoted as one argument", is_optional=True, is_repeatable=True),
    ),
    options=(CliOption("--print-settings", "print the settings for Zed and JetBrains, and run nothing"),),
    examples=(
        "dragoman conduct 'python my_link.py' -- gemini --acp",
        "dragoman conduct 'first-link --option' second-link -- dragoman agent --model scripted",
        "dragoman conduct 'python my_link.py' --print-settings -- claude-agent-acp",
    ),
    takes_program=True,
)
