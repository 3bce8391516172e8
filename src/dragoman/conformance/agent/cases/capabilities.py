"""What was not advertised is not used: by the agent towards a lesser client, and in what the agent itself serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import ALONE, Case, Ending, Fail, Inconclusive, Skip, Warn, add_cases, case
from dragoman.conformance.conversation import as_json

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn

# Called with a session that does not exist, these do no harm to the user's data.
_GATED = {
    "session/load": "loadSession",
    "session/resume": "sessionCapabilities.resume",
    "session/list": "sessionCapabilities.list",
    "session/close": "sessionCapabilities.close",
    "session/delete": "sessionCapabilities.delete",
    "session/fork": "sessionCapabilities.fork",
}
_FS = ("fs/read_text_file", "fs/write_text_file")


@case("agent/capabilities/baseline", rules=(53,))
async def baseline(probe: AgentProbe) -> None:
    """session/new, session/prompt, session/cancel and session/update are supported by every agent.

    Opens a session, prompts and cancels; expects that neither request is unknown to the agent, and an update.
    """
    session = await probe.call("session/new", probe.session_params())
    if session.code == -32601:
        raise Fail("session/new is not supported")
    turn = await probe.act("say")
    end = await turn.end()
    if end.code == -32601:
        raise Fail("session/prompt is not supported")
    if end.fields.get("stopReason") == "end_turn" and not turn.updates():
        raise Warn("a turn that ended well sent no session/update")


@case("agent/capabilities/unadvertised-refused", rules=(28, 61, 341), level="SHOULD", provokes=True)
async def unadvertised_refused(probe: AgentProbe) -> None:
    """A method whose capability was not advertised is answered with -32601.

    Calls every gated session method that was not advertised, with a session that does not exist; expects -32601.
    """
    tried = [method for method, gate in _GATED.items() if not probe.offers(gate)]
    if not tried:
        raise Skip("the agent advertises every session method")
    for method in tried:
        answer = await probe.call(method, probe.session_params(sessionId="no-such-session"))
        if answer.code != -32601:
            raise Fail(f"{method} is not advertised and was answered with {answer}")


@dataclass(frozen=True, kw_only=True)
class _Unused(Case):
    """Leads the agent to these actions as a client with these capabilities; expects no request of these methods."""

    client: dict[str, Any] | None = None
    """The capabilities; None for a client that offers nothing."""
    actions: tuple[str, ...]
    methods: tuple[str, ...]
    """Methods, or how they begin."""

    @property
    def steps(self) -> str:
        client = "without capabilities" if self.client is None else f"with the capabilities {as_json(self.client)}"
        methods = " or ".join(f"{method}*" if method.endswith("/") else method for method in self.methods)
        return f"As a client {client}, asks for the actions {' and '.join(self.actions)}; expects no {methods}."

    @property
    def setup(self) -> str:
        return "bare" if self.client is None else ALONE

    async def run(self, probe: AgentProbe) -> None:
        if self.client is not None:
            await probe.initialize(self.client)
        for action in self.actions:
            turn = await probe.act(action)
            stuck = ""
            try:
                await turn.end()
            except Ending as ending:
                stuck = ending.message
            used = probe.since(turn.mark, lambda message: str(message.method).startswith(self.methods))
            if used:
                raise Fail(f"the client did not advertise it, and the agent asked for {used[0].method}")
            if stuck:
                raise Inconclusive(f"the turn did not end: {stuck}")


add_cases(
    _Unused(
        "agent/capabilities/without-files",
        rules=(49, 272),
        about="files of a client that offers none are not asked for, and the agent works without",
        actions=("read", "write"),
        methods=_FS,
    ),
    _Unused(
        "agent/capabilities/read-only-files",
        rules=(49, 272),
        about="a client that offers reading alone is not asked to write",
        client={"fs": {"readTextFile": True}},
        actions=("write",),
        methods=("fs/write_text_file",),
    ),
    _Unused(
        "agent/capabilities/write-only-files",
        rules=(49, 272),
        about="a client that offers writing alone is not asked to read",
        client={"fs": {"writeTextFile": True, "readTextFile": False}},
        actions=("read",),
        methods=("fs/read_text_file",),
    ),
    _Unused(
        "agent/capabilities/malformed-is-absent",
        rules=(49, 59),
        about="a capability that is malformed is not used",
        client={"terminal": "yes", "fs": 3},
        actions=("run", "read"),
        methods=("terminal/", *_FS),
    ),
    _Unused(
        "agent/capabilities/without-terminal",
        rules=(49, 282),
        about="a client without terminals is asked for none",
        actions=("run",),
        methods=("terminal/",),
    ),
    _Unused(
        "agent/capabilities/without-elicitation",
        rules=(49, 298),
        about="a client that did not advertise a way to be asked is not asked",
        actions=("form", "url"),
        methods=("elicitation/",),
    ),
    _Unused(
        "agent/capabilities/empty-elicitation",
        rules=(57, 298, 299),
        about="`elicitation: {}` advertises no way to be asked",
        client={"elicitation": {"url": None}},
        actions=("form", "url"),
        methods=("elicitation/",),
    ),
)


@case("agent/capabilities/form-only", rules=(49, 298), shares=ALONE)
async def form_only(probe: AgentProbe) -> None:
    """A client that shows forms alone is not sent to a page.

    As a client with elicitation.form alone, leads the agent to ask for a visit; expects no request of mode url.
    """
    await probe.initialize({"elicitation": {"form": {}}})
    turn = await probe.act("url")
    await turn.end()
    asked = turn.sent("elicitation/create")
    if any(message.params.get("mode") == "url" for message in asked):
        raise Fail("the client did not advertise elicitation.url and was asked to open a page")


@case("agent/capabilities/elicitation-fallback", rules=(300,), level="SHOULD", shares="bare")
async def elicitation_fallback(probe: AgentProbe) -> None:
    """A turn that wanted to ask goes on without, when the client cannot be asked.

    As a client without `elicitation`, leads the agent to ask; expects the turn to end with a stop reason.
    """
    turn = await probe.act("form")
    end = await turn.end()
    if end.is_error:
        raise Fail(f"the turn ended with an error: {end}")


@case("agent/capabilities/without-notices", rules=(49, 62), shares="bare")
async def without_notices(probe: AgentProbe) -> None:
    """A client that shows no notices gets none.

    As a client without session.notices, leads the agent to a notice; expects no such update.
    """
    turn = await probe.act("notice")
    await turn.end()
    _expect_no_update(turn, ("notice",), "session.notices")


@case("agent/capabilities/without-compaction", rules=(49, 63), shares="bare")
async def without_compaction(probe: AgentProbe) -> None:
    """A client that shows no compaction gets no updates about it.

    As a client without session.compaction, leads the agent to compact; expects no such update.
    """
    turn = await probe.act("compaction")
    await turn.end()
    _expect_no_update(turn, ("compaction_update", "compaction_summary_chunk"), "session.compaction")


@case("agent/capabilities/without-boolean-options", rules=(49, 150), shares="bare")
async def without_boolean_options(probe: AgentProbe) -> None:
    """A client that shows no boolean config options gets none.

    As a client without session.configOptions.boolean, opens a session; expects no option of type boolean.
    """
    opened = await probe.open_session()
    options = opened.fields.get("configOptions")
    if not isinstance(options, list):
        raise Skip("the agent has no config options")
    if any(isinstance(option, dict) and option.get("type") == "boolean" for option in options):
        raise Fail("the client did not advertise session.configOptions.boolean and got a boolean option")


@case("agent/capabilities/some-combinations", rules=(50,), level="SHOULD", shares=ALONE)
async def files_without_terminal(probe: AgentProbe) -> None:
    """The agent works with a client that offers files but no terminal.

    As a client with fs alone, opens a session and prompts; expects the turn to end well.
    """
    await _works_with(probe, {"fs": {"readTextFile": True, "writeTextFile": True}})


@case("agent/capabilities/other-combinations", rules=(50,), level="SHOULD", shares=ALONE)
async def terminal_without_files(probe: AgentProbe) -> None:
    """The agent works with a client that offers a terminal but no files.

    As a client with `terminal` alone, opens a session and prompts; expects the turn to end well.
    """
    await _works_with(probe, {"terminal": True})


@case("agent/capabilities/unknown-client-capability", rules=(50, 60), level="SHOULD", shares=ALONE)
async def unknown_client_capability(probe: AgentProbe) -> None:
    """A capability of the client that the agent does not know does no harm.

    As a client with a capability of the future and one in _meta, opens a session and prompts; expects success.
    """
    await _works_with(probe, {"telepathy": {"range": 3}, "_meta": {"example.com": {"telepathy": True}}})


async def _works_with(probe: AgentProbe, capabilities: dict[str, Any]) -> None:
    answer = await probe.initialize(capabilities)
    if answer.is_error:
        raise Fail(f"initialize was answered with {answer}")
    end = await (await probe.act("say")).end()
    if end.is_error:
        raise Fail(f"the turn ended with {end}")


def _expect_no_update(turn: AgentTurn, kinds: tuple[str, ...], gate: str) -> None:
    for kind in kinds:
        if turn.updates(kind):
            raise Fail(f"the client did not advertise {gate} and got a {kind}")
