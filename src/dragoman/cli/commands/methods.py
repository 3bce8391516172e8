"""`dragoman methods`: the protocol's method table, as the library uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.command import JSON, CliCommand, CliOption, Invocation
from dragoman.cli.console import write_json, write_table

if TYPE_CHECKING:
    from dragoman.schema import Method

SIDES = ("agent", "client", "protocol")


def run(call: Invocation) -> int:
    methods = [method for method in _all_methods() if call.given.side in (None, method.side)]
    if call.given.json:
        write_json([_document(method) for method in methods])
    else:
        write_table(
            ("METHOD", "SERVED BY", "KIND", "STABILITY", "NEEDS CAPABILITY"),
            [(method.name, method.side, method.kind, _stability(method), method.gate or "-") for method in methods],
        )
    return exits.OK


def _all_methods() -> list[Method]:
    from dragoman import schema  # the generated types: not needed for --help and completion

    return [*schema.AGENT_METHODS.values(), *schema.CLIENT_METHODS.values(), *schema.PROTOCOL_METHODS.values()]


def _document(method: Method) -> dict[str, object]:
    return {
        "method": method.name,
        "side": method.side,
        "kind": method.kind,
        "stability": _stability(method),
        "gate": method.gate,
        "params": getattr(method.params, "__name__", None),
        "result": getattr(method.result, "__name__", None),
        "session_scoped": method.is_session_scoped,
    }


def _stability(method: Method) -> str:
    return "stable" if method.is_stable else "unstable"


COMMAND = CliCommand(
    run=run,
    description=(
        "Lists every method of the protocol: which side serves it, whether it is a request or a notification, whether\n"
        "it is stable, and the capability the serving side must have advertised."
    ),
    options=(
        CliOption("--side", "only the methods this side serves", value="SIDE", choices=SIDES),
        JSON,
    ),
    examples=("dragoman methods", "dragoman methods --side client", "dragoman methods --json"),
)
