"""Logging in to an agent: its login methods, how one is used, and how refused work is tried again afterwards.

Owns the kinds of login method and the rule that a refused call is tried once more after one login. The `choose`
callback asks the user, `dragoman.process` gives the terminal to the login program, and the protocol's own call is
`authenticate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from dragoman.errors import AuthRequired, ConfigError, DragomanError, LoginFailed, RequestError
from dragoman.schema import Unknown, v1

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import TypeAlias

    from dragoman.client.remote import RemoteAgent

    ChooseLogin: TypeAlias = Callable[[Sequence["LoginMethod"], AuthRequired], Awaitable["LoginMethod | None"]]
    RunInTerminal: TypeAlias = Callable[..., Awaitable[int]]

T = TypeVar("T")

# Where agents put a terminal login before the protocol had a type for it (copilot, kimi-cli, and others still do).
_LEGACY = "terminal-auth"
API_KEY = "api-key"
"""The member of `_meta` of a method that takes a key, and of the `authenticate` that passes one."""
_GATEWAY = "gateway"
# Gemini CLI takes the key as a text; Codex and the built-in agent take an object.
_TAKE_TEXT = ("gemini-api-key",)


class LoginMethod(Struct, frozen=True):
    """One login method, in a form that can be shown to the user.

    The kinds: `agent`, the agent does it when `authenticate` is called. `terminal`, `argv` is run on the user's
    terminal with `env` added; show it first, because some agents name a program of their own. `environment`,
    `variables` have to be set for the agent before it is started. `unknown`, a kind this version does not know.

    A method of kind `agent` that `takes_key` is used with a key that the user types: `authenticate(id, key=...)`.
    `provider` is whose key it is, in the words of the agent; empty if the agent does not state it.
    """

    id: str
    name: str
    kind: Literal["agent", "terminal", "environment", "unknown"]
    description: str = ""
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    variables: tuple[str, ...] = ()
    takes_key: bool = False
    provider: str = ""


def login_methods(
    offered: Sequence[v1.AuthMethod], command: Sequence[str | os.PathLike[str]] = ()
) -> tuple[LoginMethod, ...]:
    """Return the login methods that an agent offers.

    Args:
        offered: `RemoteAgent.auth_methods` or `AuthRequired.methods`.
        command: the command that started the agent. A terminal login is that command with the method's arguments
            appended (rule 71); without a command, as for an agent on another machine, there is nothing to run.
    """
    return tuple(_read(method, tuple(map(str, command))) for method in offered)


def _read(method: v1.AuthMethod, command: tuple[str, ...]) -> LoginMethod:
    if isinstance(method, Unknown):
        return _read_unknown(method.raw)
    description = method.description or ""
    if isinstance(method, v1.AuthMethodTerminal):
        argv = (*command, *method.args_or_default) if command else ()
        return LoginMethod(method.id, method.name, "terminal", description, argv, dict(method.env_or_default))
    # An agent that was not started here must not decide what is run here.
    legacy = _read_legacy(method.meta) if command else None
    if legacy is not None:
        argv, env = legacy
        return LoginMethod(method.id, method.name, "terminal", description, argv, env)
    meta = method.meta if isinstance(method.meta, dict) else {}
    if _GATEWAY in meta:  # it takes an address and headers, which no user types
        return LoginMethod(method.id, method.name, "unknown", description)
    about_key = meta.get(API_KEY)
    provider = about_key.get("provider") if isinstance(about_key, dict) else None
    return LoginMethod(
        method.id,
        method.name,
        "agent",
        description,
        takes_key=isinstance(about_key, dict),
        provider=provider if isinstance(provider, str) else "",
    )


def _read_legacy(meta: Any) -> tuple[tuple[str, ...], dict[str, str]] | None:
    """Read the command and the variables of a terminal login from `_meta`.

    In recordings: `{"command": "/path/kimi", "args": ["login"], "env": {}, "label": "...", "type": "terminal"}`.
    """
    form = meta.get(_LEGACY) if isinstance(meta, dict) else None
    if not isinstance(form, dict) or not isinstance(form.get("command"), str) or not form["command"]:
        return None
    args, env = form.get("args") or [], form.get("env") or {}
    if not isinstance(args, list) or not isinstance(env, dict):
        return None
    if not all(isinstance(part, str) for part in (*args, *env, *env.values())):
        return None
    return (form["command"], *args), env


def _read_unknown(raw: Mapping[str, Any]) -> LoginMethod:
    def text(name: str) -> str:
        value = raw.get(name)
        return value if isinstance(value, str) else ""

    variables: tuple[str, ...] = ()
    if text("type") == "env_var" and isinstance(raw.get("vars"), list):
        names = [variable.get("name") for variable in raw["vars"] if isinstance(variable, dict)]
        variables = tuple(name for name in names if isinstance(name, str))
    kind: Literal["environment", "unknown"] = "environment" if variables else "unknown"
    return LoginMethod(text("id"), text("name") or text("id"), kind, text("description"), variables=variables)


def usable_methods(
    methods: Iterable[LoginMethod], *, has_terminal: bool, can_type: bool | None = None
) -> tuple[LoginMethod, ...]:
    """Return the methods that can succeed from here.

    Args:
        methods: those that the agent offers.
        has_terminal: whether a program can run on a terminal of the user.
        can_type: whether the user can type a key; by default, if there is a terminal.
    """
    types = has_terminal if can_type is None else can_type

    def is_usable(method: LoginMethod) -> bool:
        match method.kind:
            case "agent":
                return types or not method.takes_key
            case "terminal":
                return has_terminal and bool(method.argv)
            case "environment":
                return types and len(method.variables) == 1
            case _:
                return False

    return tuple(method for method in methods if is_usable(method))


def key_member(method_id: str, key: str) -> dict[str, Any]:
    """Return the `_meta` of an `authenticate` that passes a key, in the form that the method takes."""
    return {API_KEY: key if method_id in _TAKE_TEXT else {"apiKey": key}}


def passed_key(meta: Any) -> str | None:
    """Return the key that the `_meta` of an `authenticate` passes, in either form; None if it passes none."""
    found = meta.get(API_KEY) if isinstance(meta, dict) else None
    key = found.get("apiKey") if isinstance(found, dict) else found
    return key if isinstance(key, str) else None


async def terminal_login(
    command: Sequence[str | os.PathLike[str]],
    method: v1.AuthMethod | LoginMethod,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    run: RunInTerminal | None = None,
) -> None:
    """Run a terminal login on the user's terminal until it exits. Connect again afterwards (rule 73).

    Args:
        command: the command that starts the agent.
        method: a login method of kind `terminal`.
        cwd: the folder the login is run in.
        env: the variables the agent itself is started with; the method's own variables take precedence (rule 71).
        run: called as `run(argv, cwd=..., env=...)` instead of using the terminal; returns the exit code.

    Raises:
        LoginFailed: the program did not exit with 0 (rule 72), or there is no terminal or no such program.
    """
    known = method if isinstance(method, LoginMethod) else _read(method, tuple(map(str, command)))
    if known.kind != "terminal" or not known.argv:
        raise LoginFailed(f"login method {known.id!r} cannot be run in a terminal here", method_id=known.id)
    if run is None:
        from dragoman.process.foreground import run_in_foreground

        run = run_in_foreground
    try:
        returncode = await run(known.argv, cwd=cwd, env={**(env or {}), **known.env})
    except DragomanError as error:
        advice = "" if isinstance(error, ConfigError) else f"; run this in a terminal: {_line(known.argv)}"
        raise LoginFailed(f"{error}{advice}", method_id=known.id) from error
    if returncode != 0:
        how = f"was ended by signal {-returncode}" if returncode < 0 else f"exited with code {returncode}"
        raise LoginFailed(f"the login {_line(known.argv)} {how}", method_id=known.id, returncode=returncode)


async def with_login(
    connect: Callable[[], AbstractAsyncContextManager[RemoteAgent]],
    work: Callable[[RemoteAgent], Awaitable[T]],
    *,
    choose: ChooseLogin,
    command: Sequence[str | os.PathLike[str]] = (),
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    run: RunInTerminal | None = None,
) -> T:
    """Connect and do `work`; if the agent requires a login for it (-32000), log in and do it once more from the start.

    After a login by the agent itself the same connection is used; for one in a terminal the agent is ended first and
    connected to again (rule 73).

    Args:
        connect: connects to the agent, as `spawn` and `connect` do.
        work: what to do with the agent; it must be possible to do it twice.
        choose: called with the login methods and the refusal; returns one, or None for none.
        command, cwd, env: those the agent is started with.
        run: as for `terminal_login`.

    Raises:
        AuthRequired: `choose` returned None.
        LoginFailed: the login did not succeed, or the agent still requires one afterwards.
    """
    async with connect() as agent:
        try:
            return await work(agent)
        except AuthRequired as refused:
            method = await choose(login_methods(refused.methods, command), refused)
            if method is None:
                raise
        if method.kind != "terminal":
            await _authenticate(agent, method)
            return await _again(agent, work, method)
    await terminal_login(command, method, cwd=cwd, env=env, run=run)
    async with connect() as agent:
        return await _again(agent, work, method)


async def _authenticate(agent: RemoteAgent, method: LoginMethod) -> None:
    if method.kind == "environment":
        names = ", ".join(method.variables)
        raise LoginFailed(f"set {names} in the agent's environment and start it again", method_id=method.id)
    if method.kind == "unknown":
        raise LoginFailed(f"login method {method.id!r} is of a kind this version does not know", method_id=method.id)
    try:
        await agent.authenticate(method.id)
    except RequestError as error:
        raise LoginFailed(f"the login {method.name!r} failed: {error}", method_id=method.id) from error


async def _again(agent: RemoteAgent, work: Callable[[RemoteAgent], Awaitable[T]], method: LoginMethod) -> T:
    try:
        return await work(agent)
    except AuthRequired as error:
        # One real agent answers every authenticate with success.
        why = f"the login {method.name!r} seemed to succeed, but the agent still requires one: {error.message}"
        raise LoginFailed(why, method_id=method.id) from error


def _line(argv: Sequence[str]) -> str:
    import shlex

    return shlex.join(argv)
