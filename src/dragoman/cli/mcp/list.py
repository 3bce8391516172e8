"""`dragoman mcp list`: the MCP servers of the settings, with their source, their state and the state of their login.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.mcp.context import load_servers_here
from dragoman.text.terminal import clip

if TYPE_CHECKING:
    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.token_store import TokenStore
    from dragoman.cli.command import CliCall
    from dragoman.cli.mcp.context import ListedServer

_WHERE_COLUMNS = 60


def list_servers(call: CliCall) -> int:
    servers = load_servers_here()
    rows = [_document(server, servers.tokens) for server in servers.all]
    if call.given.json:
        write_json(rows)
    elif rows:
        shown = [
            (
                row["name"],
                row["source"],
                row["state"],
                row["login"] or "-",
                ", ".join(row["may"]) or "-",
                clip(row["where"], _WHERE_COLUMNS),
            )
            for row in rows
        ]
        write_table(("NAME", "FROM", "STATE", "LOGIN", "MAY", "WHERE"), shown)
    else:
        write_note("there are no MCP servers; add one with: dragoman mcp add NAME -- COMMAND, or --url URL")
    for row in rows:
        if row["state"] == "proposed":
            write_note(f"{row['name']} is proposed by the project; accept it with: {row['hint']}")
    for note in servers.settings.notes:
        write_note(f"note: {note}")
    return exits.OK


def _document(server: ListedServer, tokens: TokenStore) -> dict[str, Any]:
    """Return a server without its secrets: values of headers and variables are left out."""
    from dragoman.builtin.mcp.config import Problem, ServerSpec

    spec = server.read()
    state, hint = "used", ""
    if isinstance(spec, Problem):
        state, hint = "wrong", spec.why
    elif spec is None:
        state, hint = "off", "set its `enabled` to true"
    elif not server.is_accepted:
        state, hint = "proposed", f"dragoman agents accept --mcp {server.name}"
    known = spec if isinstance(spec, ServerSpec) else None
    return {
        "name": server.name,
        "source": server.source,
        "state": state,
        "hint": hint,
        "kind": "" if known is None else "stdio" if known.command else "sse" if known.is_sse else "http",
        "where": "" if known is None else " ".join(known.command) or known.where,
        "headers": [] if known is None else sorted(known.headers),
        "env": [] if known is None else sorted(known.env),
        "login": "" if known is None else _login(known, tokens),
        "may": [] if known is None else _rights(known),
    }


def _login(spec: ServerSpec, tokens: TokenStore) -> str:
    """Return the state of the login; empty for a program, which has none."""
    if not spec.url:
        return ""
    if not spec.can_login:
        return "header" if spec.oauth is not None else "none"
    if spec.oauth is not None and spec.oauth.uses_client_credentials:
        return "client credentials"
    return tokens.get(spec.where).state


def _rights(spec: ServerSpec) -> list[str]:
    found = ["elicitation"] if spec.elicitation else []
    if spec.sampling != "never":
        found.append("sampling" if spec.sampling == "ask" else "sampling (always)")
    return found
