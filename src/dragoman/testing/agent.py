"""The scripted agent: an agent without a model, which remembers its sessions until its process ends.

Owns the sessions, modes, options and logins of the scripted agent; what it does in a turn is in `script.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman._version import __version__
from dragoman.agent import Agent, AgentSession, Context, Turn
from dragoman.errors import RequestError
from dragoman.schema import UNSET, decode, v1
from dragoman.testing.mcp_greeting import greet
from dragoman.testing.memory import RememberedSession
from dragoman.testing.script import play

if TYPE_CHECKING:
    from typing import Any

# Few enough that a handful of sessions need a second page.
PAGE: Final = 3

MODES: Final = v1.SessionModeState(
    "ask", [v1.SessionMode("ask", "Ask", "Asks before it acts"), v1.SessionMode("code", "Code", "Acts")]
)
OPTIONS: Final[tuple[v1.SessionConfigOption, ...]] = (
    v1.SessionConfigSelect(
        "mode",
        "Mode",
        "ask",
        [v1.SessionConfigSelectOption("ask", "Ask"), v1.SessionConfigSelectOption("code", "Code")],
        category="mode",
    ),
    v1.SessionConfigSelect(
        "voice",
        "Voice",
        "plain",
        [
            v1.SessionConfigSelectGroup(
                "usual",
                "Usual",
                [v1.SessionConfigSelectOption("plain", "Plain"), v1.SessionConfigSelectOption("terse", "Terse")],
            ),
            v1.SessionConfigSelectGroup("odd", "Odd", [v1.SessionConfigSelectOption("loud", "LOUD")]),
        ],
        description="How it speaks",
    ),
    v1.SessionConfigBoolean("verbose", "Verbose", False),
)
LOGIN: Final = v1.AuthMethodAgent("scripted-login", "Scripted login", description="Always succeeds")
TERMINAL_LOGIN: Final = v1.AuthMethodTerminal("terminal-login", "Log in in a terminal", args=["--login"])


def scripted_agent(*, requires_login: bool = False, unstable: bool = False) -> Agent:
    """Make a scripted agent.

    Args:
        requires_login: Sessions need `authenticate` first.
        unstable: Offer the methods of the unstable schema.
    """
    agent = Agent(
        "dragoman-scripted",
        version=__version__,
        title="Scripted agent (no model)",
        unstable=unstable,
        auth_methods=(LOGIN, TERMINAL_LOGIN),
        meta={"dragoman": {"scripted": True}},
    )
    memory: dict[str, RememberedSession] = {}
    _add_sessions(agent, memory, _add_login(agent, requires_login))
    _add_history(agent, memory)
    _add_turns(agent, memory)
    _add_extensions(agent)
    return agent


class _Login:
    """Whether sessions may be opened."""

    def __init__(self, requires_login: bool) -> None:
        self.is_open = not requires_login
        self._requires_login = requires_login

    def close(self) -> None:
        self.is_open = not self._requires_login

    def check(self) -> None:
        if not self.is_open:
            raise RequestError.auth_required("Log in first")


def _add_login(agent: Agent, requires_login: bool) -> _Login:
    login = _Login(requires_login)

    @agent.authenticate
    async def authenticate(params: v1.AuthenticateRequest, context: Context) -> None:
        login.is_open = True

    @agent.logout
    async def logout(params: v1.LogoutRequest, context: Context) -> None:
        login.close()

    return login


def _add_sessions(agent: Agent, memory: dict[str, RememberedSession], login: _Login) -> None:
    @agent.new_session(mcp=("http", "sse"), additional_directories=True)
    async def new_session(params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        login.check()
        memory[session.id] = remembered = RememberedSession(session.id, session.cwd)
        remembered.additional_directories = session.additional_directories
        if session.mcp_servers:
            _ = session._spawn(greet(session.mcp_servers, session.cwd))
        await session.commands([("help", "List the words of the script")])
        return v1.NewSessionResponse(session.id, modes=MODES, config_options=OPTIONS)

    @agent.load_session
    async def load_session(params: v1.LoadSessionRequest, session: AgentSession) -> v1.LoadSessionResponse:
        login.check()
        remembered = _recall(memory, session.id)
        remembered.additional_directories = session.additional_directories
        for update in remembered.history:
            await session.update(update)
        return v1.LoadSessionResponse(modes=MODES, config_options=OPTIONS)

    @agent.resume_session
    async def resume_session(params: v1.ResumeSessionRequest, session: AgentSession) -> v1.ResumeSessionResponse:
        login.check()
        _recall(memory, session.id).additional_directories = session.additional_directories
        return v1.ResumeSessionResponse(modes=MODES, config_options=OPTIONS)

    @agent.set_mode
    async def set_mode(params: v1.SetSessionModeRequest, session: AgentSession) -> None:
        """Accept a mode. The library keeps the modes and the option of category `mode` in step (rule 167)."""

    @agent.set_config_option
    async def set_config_option(params: v1.SetSessionConfigOptionRequest, session: AgentSession) -> None:
        """Accept the value of an option. The library answers with the complete list (rule 163)."""


def _add_history(agent: Agent, memory: dict[str, RememberedSession]) -> None:
    @agent.list_sessions
    async def list_sessions(params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
        start = 0
        if params.cursor:
            if not params.cursor.isascii() or not params.cursor.isdigit():
                raise RequestError.invalid_params("Unknown cursor", path="$.cursor")
            start = int(params.cursor)
        known = [session for session in memory.values() if not params.cwd or session.cwd == params.cwd]
        end = start + PAGE
        return v1.ListSessionsResponse(
            [session.info() for session in known[start:end]], next_cursor=str(end) if end < len(known) else UNSET
        )

    @agent.close_session
    async def close_session(params: v1.CloseSessionRequest, session: AgentSession) -> None:
        """Close a session. The library has cancelled its turns; the session can be loaded again."""

    @agent.delete_session
    async def delete_session(params: v1.DeleteSessionRequest, context: Context) -> None:
        memory.pop(params.session_id, None)


def _add_turns(agent: Agent, memory: dict[str, RememberedSession]) -> None:
    @agent.prompt(accepts=("image", "audio", "embedded_context"))
    async def prompt(turn: Turn) -> str | None:
        remembered = memory.setdefault(turn.session.id, RememberedSession(turn.session.id, turn.session.cwd))
        remembered.add(*[v1.UserMessageChunk(block) for block in turn.prompt])
        _remember_updates(turn, remembered)
        return await play(turn)


def _add_extensions(agent: Agent) -> None:
    @agent.request("_scripted/echo")
    async def echo(params: Any, context: Context) -> Any:
        return params

    @agent.notification("_scripted/poke")
    async def poke(params: Any, context: Context) -> None:
        await context.client.notify("_scripted/poked", params)


def _remember_updates(turn: Turn, remembered: RememberedSession) -> None:
    """Keep all updates that the turn sends, so that they can be replayed, without notices (rule 220)."""
    post = turn._post

    def post_and_remember(frame: bytes) -> bool:
        update = decode(v1.UpdateFrame, frame).params.update
        if isinstance(update, v1.SessionInfoUpdate) and update.title is not UNSET:
            remembered.title = update.title
        if not isinstance(update, v1.Notice):
            remembered.add(update)
        return post(frame)

    turn._post = post_and_remember


def _recall(memory: dict[str, RememberedSession], session_id: str) -> RememberedSession:
    if session_id not in memory:
        raise RequestError.not_found("Session not found")
    return memory[session_id]
