"""`dragoman web`: opens the page of the local host, and pairs browsers with it."""

from __future__ import annotations

from typing import Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption

_SEE_HELP: Final = "see dragoman web --help"
_OPENING: Final = ("port", "listen", "host", "tls_cert", "tls_key", "behind_proxy", "detach", "no_open")
_PAIRING: Final = ("right", "expires")


def run(call: CliCall) -> int:
    given = call.given
    for option in COMMAND.options:
        name = option.flag.lstrip("-").replace("-", "_")
        is_given = getattr(given, name) not in (None, False, [])
        is_wrong = (name in _OPENING and given.action is not None) or (
            name in _PAIRING and given.action not in (None, "pair")
        )
        if is_given and is_wrong:
            raise exits.CliError(f"{option.flag} does not go with web {given.action}", hint=_SEE_HELP)
    from dragoman.cli.web import run as web

    match given.action:
        case "status":
            return web.show_status(given)
        case "stop":
            return web.stop(given)
        case "pair":
            return web.pair(given)
        case _:
            return web.open_page(given)


COMMAND = CliCommand(
    run=run,
    description=(
        "Shows all sessions of all agents in a browser: on this machine, on a phone, on another computer. It opens\n"
        "the page inside the local host, which has the sessions of the terminal, prints its address with a code that\n"
        "pairs one browser within two minutes, and stays until Ctrl-C; sessions and turns go on after that.\n"
        "  dragoman web         open the page, or attach to the one that is open\n"
        "  dragoman web pair    print another code, for another browser or phone\n"
        "  dragoman web status  show whether it is open, where, and which browsers are paired\n"
        "  dragoman web stop    close it\n"
        "\n"
        "Only this machine can reach the page. From elsewhere: forward the port with ssh -L, put an HTTPS proxy of a\n"
        "private network in front (--behind-proxy --host NAME), or give it a certificate (--listen, --tls-cert,\n"
        "--tls-key). The port is chosen once and kept: a browser that was paired is known at that address alone.\n"
        "A browser that is not used for 30 days has to be paired again. See docs/web.md."
    ),
    arguments=(
        Argument("action", "what to do instead of opening it", choices=("pair", "status", "stop"), is_optional=True),
    ),
    options=(
        CliOption("--port", "the port, from now on (default: the one of before, at first 8788)", value="NUMBER"),
        CliOption("--detach", "do not wait: the page stays open until web stop, also after an update", short="-d"),
        CliOption("--no-open", "do not open a browser"),
        CliOption(
            "--right",
            "what the paired browser may do (default: everything)",
            value="RIGHT",
            choices=("view", "prompt", "answer", "admin"),
            is_repeatable=True,
        ),
        CliOption("--expires", "how long it stays paired, such as 12h or 30d (default: as long as used)", value="TIME"),
        CliOption("--listen", "the address to listen at (default: 127.0.0.1, this machine alone)", value="ADDRESS"),
        CliOption("--host", "a name by which browsers call this machine", value="NAME", is_repeatable=True),
        CliOption("--tls-cert", "the certificate chain, a PEM file", value="FILE"),
        CliOption("--tls-key", "the key of the certificate, a PEM file", value="FILE"),
        CliOption("--behind-proxy", "a proxy in front speaks TLS, under the names of --host"),
        JSON,
    ),
    examples=(
        "dragoman web",
        "dragoman web --detach",
        "dragoman web pair --right view --expires 12h",
        "dragoman web --behind-proxy --host workbench.tailnet.example",
        "dragoman web --listen 0.0.0.0 --host workbench.lan --tls-cert chain.pem --tls-key key.pem",
        "dragoman web stop",
    ),
)
