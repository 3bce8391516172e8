"""What was not advertised is not used: by the client towards a lesser agent, and in what the client itself serves."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.conformance.case import Case, CaseNeeds, Fail, Skip, add_cases, case
from dragoman.conformance.conversation import EXCERPT_CHARACTERS
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe

_REFUSED = -32601
_INVALID = -32602
_GATED_BLOCKS = {"image": "image", "audio": "audio", "resource": "embeddedContext"}


@dataclass(frozen=True, kw_only=True)
class _Uncalled(Case):
    """A method that a client does not call when the agent does not offer it."""

    method: str

    @property
    def steps(self) -> str:
        return f"Plays a turn as an agent without capabilities; expects no {self.method}."

    async def run(self, probe: ClientProbe) -> None:
        probe.first("initialize")
        if probe.sent(self.method):
            raise Fail(f"{self.method} was called, and the agent does not offer it")


_METHODS = (
    ("logout", 79, "logout", "auth.logout"),
    ("load", 104, "session/load", "loadSession"),
    ("resume", 110, "session/resume", "sessionCapabilities.resume"),
    ("close", 114, "session/close", "sessionCapabilities.close"),
    ("list", 122, "session/list", "sessionCapabilities.list"),
    ("delete", 135, "session/delete", "sessionCapabilities.delete"),
)
add_cases(
    *(
        _Uncalled(
            f"client/gates/{name}",
            rules=(49, rule),
            about=f"{method} is not called unless the agent offers {gate}",
            shares="bare",
            method=method,
        )
        for name, rule, method, gate in _METHODS
    )
)


@case("client/gates/mcp-servers", rules=(49, 96), shares="bare")
async def mcp_servers(probe: ClientProbe) -> None:
    """MCP servers over http or sse are passed only to an agent that offers mcpCapabilities.http or sse.

    Plays a turn as an agent without capabilities; expects no server of type http or sse in session/new.
    """
    servers = probe.first("session/new").params.get("mcpServers")
    for server in servers if isinstance(servers, list) else ():
        if isinstance(server, dict) and server.get("type") in ("http", "sse"):
            raise Fail(f"session/new passes a server of type {server['type']}, which the agent does not offer")


@case("client/gates/additional-directories", rules=(49, 140), shares="bare")
async def additional_directories(probe: ClientProbe) -> None:
    """additionalDirectories are passed only to an agent that offers them.

    Plays a turn as an agent without capabilities; expects no additionalDirectories in session/new.
    """
    found = probe.first("session/new").params.get("additionalDirectories")
    if found:
        named = shorten(str(found), EXCERPT_CHARACTERS)
        raise Fail(f"session/new passes additionalDirectories {named}, which the agent does not offer")


@case("client/gates/prompt-content", rules=(49, 177), shares="bare")
async def prompt_content(probe: ClientProbe) -> None:
    """Prompts hold images, audio and embedded resources only for an agent that takes them.

    Plays a turn as an agent without capabilities; expects text and resource links only in the prompt.
    """
    blocks = probe.first("session/prompt").params.get("prompt")
    for block in blocks if isinstance(blocks, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _GATED_BLOCKS:
            raise Fail(f"the prompt holds a block of type {kind}; promptCapabilities.{_GATED_BLOCKS[kind]} is missing")


@case(
    "client/gates/read-refused",
    rules=(61, 341),
    level="SHOULD",
    is_watched=False,
    needs=CaseNeeds(lacks="fs.readTextFile"),
)
async def read_refused(probe: ClientProbe) -> None:
    """fs/read_text_file that was not advertised is answered with -32601.

    Reads a file of the session although the client does not offer that; expects -32601.
    """
    await probe.prompted()
    await _refused(probe, "fs/read_text_file", path=os.devnull)


@case(
    "client/gates/write-refused",
    rules=(61, 341),
    level="SHOULD",
    is_watched=False,
    needs=CaseNeeds(lacks="fs.writeTextFile"),
)
async def write_refused(probe: ClientProbe) -> None:
    """fs/write_text_file that was not advertised is answered with -32601, and nothing is written.

    Writes a file although the client does not offer that; expects -32601, and no file.
    """
    path = probe.folder / "unwanted.txt"
    await probe.prompted()
    await _refused(probe, "fs/write_text_file", path=str(path), content="unwanted")
    if path.exists():
        raise Fail("fs/write_text_file was refused, and the file was written all the same")


@case(
    "client/gates/terminal-refused",
    rules=(61, 341),
    level="SHOULD",
    is_watched=False,
    needs=CaseNeeds(lacks="terminal"),
)
async def terminal_refused(probe: ClientProbe) -> None:
    """terminal/* that was not advertised is answered with -32601.

    Calls every terminal method although the client does not offer terminals; expects -32601 from each.
    """
    await probe.prompted()
    await _refused(probe, "terminal/create", command="/bin/echo", args=["unwanted"])
    for method in ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"):
        await _refused(probe, method, terminalId="no-such-terminal")


@case("client/gates/elicitation-refused", rules=(61, 299, 301, 341), level="SHOULD", is_watched=False)
async def elicitation_refused(probe: ClientProbe) -> None:
    """Elicitation in a mode that was not advertised is answered with -32602, or -32601 if there is none at all.

    Asks in each mode the client does not offer; expects an error. An empty `elicitation: {}` offers neither.
    """
    await probe.prompted()
    missing = [mode for mode in ("form", "url") if not probe.offers(f"elicitation.{mode}")]
    if not missing:
        raise Skip("the client advertises both modes of elicitation")
    modes: dict[str, dict[str, object]] = {
        "form": {"requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "url": {"elicitationId": "unwanted", "url": "https://example.com/"},
    }
    for mode in missing:
        answer = await probe.ask("elicitation/create", mode=mode, message="Who are you?", **modes[mode])
        if answer.code not in (_REFUSED, _INVALID):
            raise Fail(f"elicitation in the mode {mode} is not advertised and was answered with {answer}")


async def _refused(probe: ClientProbe, method: str, **params: object) -> None:
    answer = await probe.ask(method, **params)
    if answer.code != _REFUSED:
        raise Fail(f"{method} is not advertised and was answered with {answer}")
