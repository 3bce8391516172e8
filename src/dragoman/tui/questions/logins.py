"""Logging in to the agent of a conversation: its methods from the host, and how each of them is used.

A method of the agent is carried out by the host; what the agent asks meanwhile, a page or a code, comes as a form. A
method that needs a terminal runs `dragoman login` on the user's terminal, which starts the agent's own program there.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.client.login import LoginMethod, login_methods
from dragoman.errors import DragomanError, LoginFailed, RequestError
from dragoman.host.local.agents import COMMAND_MARK
from dragoman.process.own_program import own_command, own_words
from dragoman.schema import decode, v1
from dragoman.tui.local_host.host_connection import HostLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.tui.conversation import HostedConversation

OWN_PROGRAM: Final = LoginMethod(
    "", "dragoman login", "terminal", "runs dragoman login here, which shows every method of the agent"
)


async def methods_of(conversation: HostedConversation) -> list[LoginMethod]:
    """Return the login methods of the conversation's agent; the last one is always `dragoman login` in this terminal.

    Raises: RequestError, ConnectionClosed, NoHost.
    """
    async with HostLink(conversation) as remote:
        answer = await remote.request("_dragoman/login_methods", {"agent": await _agent_of(conversation)})
    methods: list[LoginMethod] = []
    for raw in answer.get("authMethods") or ():
        method: Any = decode(v1.AuthMethod, msgspec.json.encode(raw))
        # The words of the command do not count here: `dragoman login` finds them again.
        methods += login_methods([method], ("agent",))
    return [*methods, OWN_PROGRAM]


async def log_in_by_agent(conversation: HostedConversation, method: LoginMethod) -> None:
    """Let the agent log in. Raises: LoginFailed."""
    try:
        async with HostLink(conversation) as remote:
            await remote.request("_dragoman/log_in", {"agent": await _agent_of(conversation), "method": method.id})
    except RequestError as error:
        raise LoginFailed(f"the login failed: {error.message}", method_id=method.id) from None


async def log_in_by_terminal(conversation: HostedConversation, method: LoginMethod) -> None:
    """Run the login program on this terminal, which must be free. Raises: LoginFailed."""
    from dragoman.process.foreground import run_in_foreground

    argv = login_command(await _agent_of(conversation), method.id)
    try:
        code = await run_in_foreground(argv, cwd=conversation.folder)
    except DragomanError as error:
        raise LoginFailed(f"{error}; run this in a terminal: {shown_command(argv)}", method_id=method.id) from None
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
        raise LoginFailed(f"{shown_command(argv)} {how}", method_id=method.id, returncode=code)


def login_command(agent: str, method: str) -> list[str]:
    """Return the command that logs in to an agent, as the host names it, by a method; any method if that is empty."""
    words = [*own_command("login")]
    if agent.startswith(COMMAND_MARK):
        return [*words, *([method] if method else []), "--", *shlex.split(agent.removeprefix(COMMAND_MARK))]
    name = (shlex.split(agent) or [""])[0]
    return [*words, *(["-a", name] if name else []), *([method] if method else [])]


def shown_command(argv: list[str]) -> str:
    """Return the command as a user types it."""
    return shlex.join(["dragoman", *(own_words(argv) or ())])


def method_lines(methods: list[LoginMethod]) -> Iterator[str]:
    """Yield the methods with their numbers, and what each does."""
    from dragoman.text.visible import label

    how = {
        "agent": "the agent does it",
        "terminal": "runs a program in this terminal",
        "unknown": "a kind that this version does not know",
    }
    for number, method in enumerate(methods, 1):
        yield f"  {number}: {label(method.name, 60, '(no name)')} ({how.get(method.kind, _variables(method))})"
        if method.description:
            yield f"     {label(method.description, 200)}"


def _variables(method: LoginMethod) -> str:
    from dragoman.text.visible import label

    return f"set {label(', '.join(method.variables), 80)} and start again"


async def use(conversation: HostedConversation, method: LoginMethod) -> None:
    """Log in by a method that needs no terminal. Raises: LoginFailed."""
    if method.kind == "agent":
        await log_in_by_agent(conversation, method)
    elif method.kind == "environment":
        names = ", ".join(method.variables)
        raise LoginFailed(f"set {names} in your shell or in the agent's `env`, and try again", method_id=method.id)
    else:
        raise LoginFailed(f"{method.name!r} is of a kind that this version does not know", method_id=method.id)


async def _agent_of(conversation: HostedConversation) -> str:
    """Return the agent as the host names it; of a session that was attached to, the list of sessions has it."""
    if not conversation.agent and conversation.session_id is not None and conversation.remote is not None:
        for row in await conversation.sessions():
            if row.session_id == conversation.session_id:
                conversation.agent = row.agent
    return conversation.agent
