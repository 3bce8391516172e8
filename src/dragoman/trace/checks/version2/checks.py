"""Finds the rules of version 2 that recorded traffic breaks.

Owns the order of the checks and the rules about messages and calls; states and prompts are in `sessions.py`, what tool
calls show in `tools.py`. Only what the recording proves is reported.
"""

from __future__ import annotations

from os.path import isabs
from typing import TYPE_CHECKING, Any, Final

from dragoman.schema import CLIENT_METHODS, is_advertised, v2
from dragoman.trace.checks.shape import oddities
from dragoman.trace.checks.version2.sessions import SessionChecks

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.trace.checks.facts import Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

_GATED_BLOCKS: Final[dict[type, str]] = {
    v2.ImageContent: "session.prompt.image",
    v2.AudioContent: "session.prompt.audio",
    v2.EmbeddedResource: "session.prompt.embeddedContext",
}
_GATED_SERVERS: Final[dict[type, str]] = {
    v2.McpServerStdio: "session.mcp.stdio",
    v2.McpServerHttp: "session.mcp.http",
    v2.McpServerAcp: "session.mcp.acp",
}


class Version2Checks:
    """Checks the frames of one connection, from the response to `initialize` on."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._agent: v2.AgentCapabilities | None = None
        self._logins: dict[str, str] = {}
        self._sessions = SessionChecks(facts)
        self._steps: dict[type, Callable[[DecodedFrame, Any], None]] = {
            v2.InitializeResponse: self._take_capabilities,
            v2.LoginAuthRequest: self._login,
            v2.NewSessionRequest: self._check_opening,
            v2.ResumeSessionRequest: self._check_opening,
            v2.ForkSessionRequest: self._check_opening,
            v2.PromptRequest: self._check_prompt,
        }

    def check(self, frame: DecodedFrame) -> None:
        """Report what is wrong with a frame."""
        self._check_fit(frame)
        if frame.part == "params":
            self._check_call(frame)
            if frame.method == "initialize" and type(frame.plain) is dict:
                self._ask_again(frame, frame.plain.get("protocolVersion"))
        step = self._steps.get(type(frame.value))
        if step is not None:
            step(frame, frame.value)
        self._sessions.check(frame)

    def finish(self) -> None:
        """Report what is missing at the end."""
        self._sessions.finish()

    def _check_fit(self, frame: DecodedFrame) -> None:
        facts = self._facts
        if frame.fault is not None:
            facts.report(2001, frame, f"{frame.method}: {frame.fault}")
        for loss in frame.losses:
            facts.report(2001, frame, f"{loss.path}: {loss.why}")
        if frame.row is None or frame.part == "error" or frame.fault is not None:
            return
        kind = frame.row.params if frame.part == "params" else frame.row.result
        for odd in oddities(kind, frame.plain) if kind is not None else ():
            if odd.what == "extra":
                facts.report(2002, frame, f"{odd.path}: the schema does not name this member", "EXTRA")
            elif odd.what == "variant" and not odd.value.startswith("_"):
                facts.report(2003, frame, f"{odd.path}: {odd.value!r} is neither a variant of the schema nor marked")

    def _check_call(self, frame: DecodedFrame) -> None:
        facts, row = self._facts, frame.row
        is_removed = row is None and frame.method in CLIENT_METHODS and frame.method.startswith(("fs/", "terminal/"))
        if frame.dir == "a2c" and is_removed:
            facts.report(2005, frame, f"{frame.method} does not exist in version 2")
        elif frame.dir == "c2a" and row is not None and row.gate is not None:
            self._require(frame, row.gate, frame.method)

    def _require(self, frame: DecodedFrame, gate: str, what: str) -> None:
        if self._agent is not None and not is_advertised(self._agent, gate):
            self._facts.report(2013, frame, f"{what} needs {gate}, which the agent does not advertise")

    def _ask_again(self, frame: DecodedFrame, version: object) -> None:
        if isinstance(version, int) and version < 2:
            self._facts.report(2006, frame, f"version {version} was asked for after version 2")

    def _take_capabilities(self, frame: DecodedFrame, result: v2.InitializeResponse) -> None:
        self._facts.is_initialized = True
        self._agent = result.capabilities_or_default
        kinds: dict[type, str] = {v2.AuthMethodTerminal: "terminal"}
        self._logins = {
            method.method_id: kinds.get(type(method), "agent")
            for method in result.auth_methods_or_default
            if isinstance(method, v2.AuthMethodAgent | v2.AuthMethodTerminal)
        }

    def _login(self, frame: DecodedFrame, request: v2.LoginAuthRequest) -> None:
        kind = self._logins.get(request.method_id)
        if kind is None:
            self._facts.report(2015, frame, f"{request.method_id!r} is not one of the advertised login methods")
        elif kind == "terminal":
            self._facts.report(2015, frame, f"{request.method_id!r} is a terminal login")

    def _check_opening(self, frame: DecodedFrame, request: Any) -> None:
        for path in (request.cwd, *request.additional_directories_or_default):
            if not isabs(path) and not self._facts.is_redacted:
                self._facts.report(2017, frame, f"{path!r} is not an absolute path")
        if request.additional_directories:
            self._require(frame, "session.additionalDirectories", "additionalDirectories")
        for server in request.mcp_servers_or_default:
            gate = _GATED_SERVERS.get(type(server))
            if gate is not None:
                self._require(frame, gate, f"the MCP server {server.name!r}")

    def _check_prompt(self, frame: DecodedFrame, request: v2.PromptRequest) -> None:
        if not request.prompt:
            self._facts.report(2028, frame, "the prompt has no content")
        for block in request.prompt:
            gate = _GATED_BLOCKS.get(type(block))
            if gate is not None:
                self._require(frame, gate, type(block).__name__)
