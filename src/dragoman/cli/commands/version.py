"""`dragoman version`: the versions a bug report needs, and the protocol's method table, as the library uses it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.command import JSON, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json, write_table

if TYPE_CHECKING:
    from dragoman.schema import Method

SIDES = ("agent", "client", "protocol")


def run(call: CliCall) -> int:
    """Show the versions, or the methods."""
    if call.given.side is not None and not call.given.methods:
        raise exits.CliError("--side chooses methods", hint="add --methods, or see dragoman version --help")
    if call.given.methods:
        _show_methods(call.given.side, is_json=call.given.json)
    else:
        _show_versions(is_json=call.given.json)
    return exits.OK


def _show_versions(*, is_json: bool) -> None:
    from dragoman.trace.program_versions import versions

    found = versions()
    if is_json:
        write_json(found)
    else:
        width = max(map(len, found))
        sys.stdout.writelines(f"{name:{width}}  {version}\n" for name, version in found.items())


def _show_methods(side: str | None, *, is_json: bool) -> None:
    from dragoman import schema  # the generated types: not needed for --help and completion

    tables = (schema.AGENT_METHODS, schema.CLIENT_METHODS, schema.PROTOCOL_METHODS)
    methods = [method for table in tables for method in table.values() if side in (None, method.side)]
    if is_json:
        write_json([_document(method) for method in methods])
    else:
        write_table(
            ("METHOD", "SERVED BY", "KIND", "STABILITY", "NEEDS CAPABILITY"),
            [(method.name, method.side, method.kind, _stability(method), method.gate or "-") for method in methods],
        )


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
        "Shows the versions of dragoman, of Python and msgspec, and of the protocol it supports. --methods lists the\n"
        "methods of the protocol: which side serves each, whether it is a request or a notification, whether it is\n"
        "stable, and the capability the serving side must have advertised."
    ),
    options=(
        CliOption("--methods", "list the methods of the protocol"),
        CliOption("--side", "of these, only the methods this side serves", value="SIDE", choices=SIDES),
        JSON,
    ),
    examples=("dragoman version", "dragoman version --methods --side client", "dragoman version --json"),
)
