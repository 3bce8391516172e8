"""`dragoman connect`: a stdio agent for editors that leads to an agent or a host on another machine."""

from __future__ import annotations

from typing import Any

from dragoman.cli import exits
from dragoman.cli.command import Argument, CliCall, CliCommand, CliOption
from dragoman.cli.masked_streams import mask_stored_keys

_SEE_HELP = "see dragoman connect --help"


def run(call: CliCall) -> int:
    from dragoman.cli.connect import log_in_first, print_settings, read_remote, run_bridge, run_relay

    given = call.given
    mask_stored_keys()
    if given.print_settings:
        return print_settings(given)
    if given.action is not None:
        return _log_in(given)
    if given.raw and (given.map or given.agent is not None):
        raise exits.CliError("--raw changes no message; leave out --map and --agent", hint=_SEE_HELP)
    if given.login:
        log_in_first(given)
    remote = read_remote(given)
    return run_relay(remote) if given.raw else run_bridge(remote, agent=given.agent, maps=given.map)


def _log_in(given: Any) -> int:
    """Log in to an agent of this machine: an editor does so with its launch command and words of the host behind it."""
    from dragoman.cli import table
    from dragoman.cli.command import parse

    if not given.url.startswith("unix:"):
        raise exits.CliError("the agent is on another machine", hint="there: dragoman login -a AGENT")
    if given.agent is None:
        raise exits.CliError("login needs the agent", hint="name it with -a AGENT")
    login = table.load("login")
    return login.run(parse("login", login, ["-a", given.agent]))


COMMAND = CliCommand(
    run=run,
    description=(
        "An agent on stdin and stdout for editors, which leads to a host on another machine (dragoman serve). When\n"
        "the line breaks it connects again by itself, and the editor sees one unbroken session: no update is lost or\n"
        "repeated, a prompt is never run twice, and a dialog that is open stays open. Other remote agents are\n"
        "connected too; what runs there ends with the line. See docs/remote.md."
    ),
    arguments=(
        Argument("url", "wss://HOST/acp, https://HOST/acp, ws:// and http:// on this machine, or unix:PATH"),
        Argument(
            "action",
            "log in to --agent in this terminal; editors add it, for hosts on this machine",
            choices=("login",),
            is_optional=True,
        ),
    ),
    options=(
        CliOption("--agent", "the agent of the host that new sessions use", value="AGENT", short="-a"),
        CliOption("--token-env", "the variable that holds the token (default: DRAGOMAN_TOKEN)", value="NAME"),
        CliOption("--token-file", "the file that holds the token", value="FILE"),
        CliOption("--login", "log in with the provider of the host first, unless you are; see dragoman login --url"),
        CliOption("--header", "a header to send with every request", value="NAME:VALUE", is_repeatable=True),
        CliOption("--ca", "certificates to trust, a PEM file, for a host with a certificate of its own", value="FILE"),
        CliOption(
            "--map", "a folder of this machine and the same one on the host", value="LOCAL=REMOTE", is_repeatable=True
        ),
        CliOption("--raw", "pass messages on unchanged and do not reconnect, for tools that judge an agent"),
        CliOption("--print-settings", "print the settings of an editor that starts this, and end"),
    ),
    examples=(
        "dragoman connect wss://agents.example/acp --agent claude --token-env AGENTS_TOKEN",
        "dragoman connect ws://127.0.0.1:8787/acp --token-file ~/.local/share/dragoman/serve/first.token",
        "dragoman connect wss://agents.example/acp --login",
        "dragoman connect wss://agents.example/acp --map ~/src=/srv/src --print-settings",
    ),
)
