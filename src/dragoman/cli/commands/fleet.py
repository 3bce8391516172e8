"""`dragoman fleet`: shows those who run a host its users and sessions, ends a session, and changes limits of users."""

from __future__ import annotations

from typing import Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.masked_streams import mask_stored_keys

_SEE_HELP: Final = "see dragoman fleet --help"
_NAMED: Final = {"show": "the id of a session", "end": "the id of a session", "quota": "the name of a user"}
_DEFAULT_URL: Final = "ws://127.0.0.1:8787/acp"


def run(call: CliCall) -> int:
    given = call.given
    mask_stored_keys()
    if given.action in _NAMED and given.name is None:
        raise exits.CliError(f"fleet {given.action} needs {_NAMED[given.action]}", hint=_SEE_HELP)
    if given.action not in _NAMED and given.name is not None:
        raise exits.CliError(f"fleet {given.action} takes no name", hint=_SEE_HELP)
    for flag, is_given, action in (
        ("--user", given.user is not None, "sessions"),
        ("--all", given.all, "sessions"),
        ("--reset", given.reset, "quota"),
        ("a limit", bool(given.limits), "quota"),
    ):
        if is_given and given.action != action:
            raise exits.CliError(f"{flag} goes with fleet {action}", hint=_SEE_HELP)
    from dragoman.cli.fleet import run_fleet

    return run_fleet(given, given.url or _DEFAULT_URL)


def _limits() -> tuple[str, ...]:
    from dragoman.host.quotas import LIMITS

    return tuple(f"{name}=" for name in LIMITS)


COMMAND = CliCommand(
    run=run,
    description=(
        "For those who run a host (dragoman serve). Needs a token with the right admin, which is made on the machine\n"
        "of the host: dragoman serve token add operator --right view --right admin. Nothing that users or agents\n"
        "wrote is shown: no titles, prompts or messages. See docs/hosting.md.\n"
        "  hosts              the machines: state, agents that run, turns, sizes\n"
        "  sessions           sessions of all users, the last changed first\n"
        "  show ID            one session: who uses it, how its last turn ended\n"
        "  end ID             cancel its turn and end its agent; its user keeps the history and may go on\n"
        "  users              what each user uses now\n"
        "  quota USER         the limits of a user, and what is used of each\n"
        "  quota USER L=N...  change them at once: a number, none for no limit, default for that of the host"
    ),
    arguments=(
        Argument("action", "what to do", choices=("hosts", "sessions", "show", "end", "users", "quota")),
        Argument("name", "show and end: the session; quota: the user", is_optional=True),
        Argument(
            "limits",
            "quota: limits to change, such as turns=4",
            is_optional=True,
            is_repeatable=True,
            suggest=_limits,
        ),
    ),
    options=(
        CliOption("--url", f"the host, wss://HOST/acp or unix:PATH (default: {_DEFAULT_URL})", value="URL"),
        CliOption("--token-env", "the variable that holds the token (default: DRAGOMAN_TOKEN)", value="NAME"),
        CliOption("--token-file", "the file that holds the token", value="FILE"),
        CliOption("--ca", "certificates to trust, a PEM file, for a host with a certificate of its own", value="FILE"),
        CliOption("--user", "sessions: those of one user", value="USER"),
        CliOption("--all", "sessions: all of them, not the last 100"),
        CliOption("--reset", "quota: take away all limits of its own first"),
        JSON,
    ),
    examples=(
        "dragoman fleet hosts --url wss://agents.example/acp --token-env OPERATOR_TOKEN",
        "dragoman fleet sessions --user ada",
        "dragoman fleet end 5sxqjm2hxk3ed7tbwkc6vtxsuy",
        "dragoman fleet users --json",
        "dragoman fleet quota ada turns=4 cost_per_day=20",
        "dragoman fleet quota ada turns=default stored_bytes=none",
    ),
)
