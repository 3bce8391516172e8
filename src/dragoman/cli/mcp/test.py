"""`dragoman mcp test`: connects to a server and prints what it offers and how long it took."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.console import write_json, write_table
from dragoman.cli.mcp.context import load_package, load_servers_here, required_name
from dragoman.text.terminal import clip, one_line

if TYPE_CHECKING:
    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.listing import Listing
    from dragoman.builtin.mcp.token_store import TokenStore
    from dragoman.cli.command import CliCall

SECONDS: Final = 60.0
_COLUMNS: Final = 70


def test_server(call: CliCall) -> int:
    """Exit code 7 if a login is needed, 3 if the server does not answer in time, 8 for every other failure."""
    name = required_name(call.given.server, "test", "dragoman mcp test docs")
    servers = load_servers_here()
    spec = servers.usable(name)
    load_package()
    seconds = seconds_of(call, SECONDS)
    listing, took = asyncio.run(_connect(spec, servers.tokens, seconds))
    if call.given.json:
        write_json(_document(spec, listing, took))
    else:
        _write(spec, listing, took)
    return exits.OK


def seconds_of(call: CliCall, default: float) -> float:
    """Return the time limit of `--timeout`. Raises: CliError."""
    text = call.given.timeout
    try:
        seconds = default if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise exits.CliError(f"--timeout {text}: not a number of seconds", hint="such as --timeout 30")
    return seconds


async def _connect(spec: ServerSpec, tokens: TokenStore, seconds: float) -> tuple[Listing, float]:
    """Raises: CliError."""
    from dragoman.builtin.mcp.connection import PackageConnection
    from dragoman.builtin.mcp.oauth import auth_for
    from dragoman.builtin.mcp.server import McpConnectionLost, McpLoginNeeded

    began = time.monotonic()
    connection = PackageConnection(spec, os.getcwd(), lambda: None, auth=auth_for(spec, tokens))
    try:
        async with asyncio.timeout(seconds), connection:
            listing = await connection.listing()
            return listing, time.monotonic() - began
        # A connection that breaks leaves the block without an exception.
        raise McpConnectionLost(connection.lost or "it closed the connection")
    except TimeoutError:
        raise exits.CliError(
            f"{spec.name}: {spec.where} did not answer within {seconds:g} s",
            hint="check that it is an MCP server, or give it more time with --timeout",
            exit_code=exits.TIMED_OUT,
        ) from None
    except McpLoginNeeded as error:
        raise exits.CliError(f"{spec.name}: {error}", exit_code=exits.AUTH_REQUIRED) from None
    except McpConnectionLost as error:
        raise exits.CliError(f"{spec.name}: {error}", exit_code=exits.CHECK_FAILED) from None


def _document(spec: ServerSpec, listing: Listing, took: float) -> dict[str, Any]:
    return {
        "name": spec.name,
        "server": listing.title,
        "protocol": listing.protocol,
        "seconds": round(took, 3),
        "tools": [{"name": tool.name, "description": tool.description} for tool in listing.tools],
        "resources": [{"uri": resource.uri, "template": resource.is_template} for resource in listing.resources],
        "prompts": [
            {"name": prompt.name, "arguments": [parameter.name for parameter in prompt.parameters]}
            for prompt in listing.prompts
        ],
    }


def _write(spec: ServerSpec, listing: Listing, took: float) -> None:
    own = one_line(listing.title) or "it does not state its name"
    sys.stdout.write(f"{one_line(spec.name)}: {own}, MCP {one_line(listing.protocol)}, in {took:.2f} s\n")
    rows = [("tool", tool.name, clip(one_line(tool.description), _COLUMNS)) for tool in listing.tools]
    for resource in listing.resources:
        rows.append(
            ("template" if resource.is_template else "resource", resource.uri, clip(one_line(resource.name), _COLUMNS))
        )
    for prompt in listing.prompts:
        words = " ".join(
            f"<{parameter.name}>" if parameter.is_required else f"[{parameter.name}]" for parameter in prompt.parameters
        )
        rows.append(("prompt", prompt.name, clip(one_line(words or prompt.description), _COLUMNS)))
    if rows:
        write_table(("OFFERS", "NAME", "ABOUT"), rows)
    else:
        sys.stdout.write("it offers nothing\n")
