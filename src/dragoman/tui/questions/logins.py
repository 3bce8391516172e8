"""Logging in to the agent of a conversation: its methods from the host, and how each of them is used.

A method of the agent is carried out by the host; what the agent asks meanwhile, a page or a code, comes as a form. A
method that needs a terminal runs `dragoman login` on the user's terminal, which starts the agent's own program there. A
key that the user types is checked with its provider here, and then stored for the built-in agent, or passed to another
agent by the host. Methods that cannot succeed from here are not offered.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.client.login import LoginMethod, key_member, login_methods, usable_methods
from dragoman.errors import DragomanError, LoginFailed, RequestError
from dragoman.host.local.agents import COMMAND_MARK
from dragoman.process.own_program import own_command, own_words
from dragoman.schema import decode, v1
from dragoman.text.terminal import one_line
from dragoman.tui.local_host.host_connection import HostLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.tui.conversation import HostedConversation

OWN_PROGRAM: Final = LoginMethod(
    "", "dragoman login", "terminal", "runs dragoman login here, which shows every method of the agent"
)


class OwnKey(LoginMethod, frozen=True):
    """A key that is stored for the built-in agent; of a provider that the user is asked for, if it names none."""


_OTHER_PROVIDER: Final = OwnKey(
    "", "API key of another provider", "agent", "OpenRouter, DeepSeek, Mistral, Groq and others", takes_key=True
)


async def methods_of(conversation: HostedConversation, *, has_terminal: bool = True) -> list[LoginMethod]:
    """Return the login methods of the conversation's agent that can succeed from here.

    With a terminal the last one is `dragoman login` there, unless the built-in agent has all of it as keys.

    Raises: RequestError, ConnectionClosed, NoHost.
    """
    async with HostLink(conversation) as remote:
        answer = await remote.request("_dragoman/login_methods", {"agent": await _agent_of(conversation)})
    methods: list[LoginMethod] = []
    for raw in answer.get("authMethods") or ():
        method: Any = decode(v1.AuthMethod, msgspec.json.encode(raw))
        # The words of the command do not count here: `dragoman login` finds them again.
        found = login_methods([method], ("agent",))[0]
        is_own = found.takes_key and "dragoman" in (raw.get("_meta") or {})
        if is_own:
            found = OwnKey(found.id, found.name, found.kind, "", takes_key=True, provider=found.provider)
        methods.append(found)
    agent = await _agent_of(conversation)
    if not agent or agent.startswith(COMMAND_MARK):  # a variable is stored under the name of an agent
        methods = [method for method in methods if method.kind != "environment"]
    own = [method for method in methods if isinstance(method, OwnKey)]
    if own:
        more = [_OTHER_PROVIDER] if len(own) > 1 else []  # an agent with a model needs the key of that one only
        return [*own, *more] if has_terminal else []
    return [*usable_methods(methods, has_terminal=has_terminal), *([OWN_PROGRAM] if has_terminal else [])]


async def log_in_by_agent(conversation: HostedConversation, method: LoginMethod, key: str | None = None) -> None:
    """Let the agent log in, with a key if the method takes one. Raises: LoginFailed."""
    passed = {} if key is None else {"_meta": key_member(method.id, key)}
    asked = {"agent": await _agent_of(conversation), "method": method.id, **passed}
    try:
        async with HostLink(conversation) as remote:
            await remote.request("_dragoman/log_in", asked)
    except RequestError as error:
        words = error.message.replace(key, "[key]") if key else error.message  # some agents repeat it
        raise LoginFailed(f"the login failed: {words}", method_id=method.id) from None


async def use_key(conversation: HostedConversation, method: LoginMethod, key: str) -> str:
    """Log in to another agent with a key, and return a sentence about that. Raises: LoginFailed, ConfigError."""
    if method.kind != "environment":
        await log_in_by_agent(conversation, method, key)
        return f"logged in: {one_line(method.name)}"
    import asyncio

    from dragoman.registry.known import well_known
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir
    from dragoman.text.secrets import remember_key

    typed, variable = shlex.split(await _agent_of(conversation))[0], method.variables[0]
    known = well_known(typed)
    name = typed if known is None else known.name
    remember_key(variable, key)
    credentials = Credentials(config_dir())
    await asyncio.to_thread(credentials.put_variable, name, variable, key)
    return f"{one_line(name)} gets the key as {one_line(variable)}; it is stored in {credentials.path}"


async def log_in_by_terminal(conversation: HostedConversation, method: LoginMethod) -> None:
    """Run the login program on this terminal, which must be free. Raises: LoginFailed."""
    from dragoman.process.foreground import run_in_foreground

    argv = login_command(await _agent_of(conversation), method.id)
    if isinstance(method, OwnKey):
        argv = [*own_command("agent", "login"), *([method.provider] if method.provider else [])]
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

    for number, method in enumerate(methods, 1):
        how = {"agent": "the agent does it", "terminal": "runs a program in this terminal"}.get(method.kind, "")
        if method.takes_key or method.kind == "environment":
            how = "you type the key"
        yield f"  {number}: {label(method.name, 60, '(no name)')} ({how})"
        if method.description:
            yield f"     {label(method.description, 200)}"


async def use(conversation: HostedConversation, method: LoginMethod) -> None:
    """Log in by a method that needs neither a terminal nor a key. Raises: LoginFailed."""
    if method.kind != "agent":
        raise LoginFailed(f"{method.name!r} cannot be used here", method_id=method.id)
    await log_in_by_agent(conversation, method)


async def _agent_of(conversation: HostedConversation) -> str:
    """Return the agent as the host names it; of a session that was attached to, the list of sessions has it."""
    if not conversation.agent and conversation.session_id is not None and conversation.remote is not None:
        for row in await conversation.sessions():
            if row.session_id == conversation.session_id:
                conversation.agent = row.agent
    return conversation.agent
