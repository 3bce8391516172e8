"""Logging in and out.

A real login opens browsers and a real logout loses credentials, so what needs either runs only if a preset or the
user's file of prompts names an auth method that needs no user (`login = "method-id"`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import ALONE, Fail, Skip, case
from dragoman.conformance.expect import expect_code, expect_empty

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe


@case("agent/authentication/method-shape", rules=(64,))
async def method_shape(probe: AgentProbe) -> None:
    """Every advertised auth method has an id and a name, and no id occurs twice.

    Looks at authMethods in the result of initialize; expects strings for id and name.
    """
    methods = _methods(probe)
    for method in methods:
        if not all(isinstance(method.get(member), str) for member in ("id", "name")):
            raise Fail(f"an auth method has no id or no name: {method!r}")
    ids = [method["id"] for method in methods]
    if len(set(ids)) < len(ids):
        raise Fail(f"two auth methods have the same id: {ids!r}")


@case("agent/authentication/terminal-gated", rules=(69,), shares="bare")
async def terminal_gated(probe: AgentProbe) -> None:
    """Auth methods that need a terminal are shown only to clients that can open one.

    Initializes without auth.terminal; expects no auth method of type terminal.
    """
    for method in _all_methods(probe):
        if method.get("type") == "terminal":
            raise Fail(f"the client did not set auth.terminal and was shown {method.get('id')!r}")


@case("agent/authentication/terminal-shape", rules=(74,))
async def terminal_shape(probe: AgentProbe) -> None:
    """An auth method of type terminal names arguments and environment, never a command.

    Looks at the auth methods of type terminal; expects `args` to be a list, `env` an object, and no `command`.
    """
    terminal = [method for method in _methods(probe) if method.get("type") == "terminal"]
    if not terminal:
        raise Skip("the agent advertises no auth method of type terminal")
    for method in terminal:
        if "command" in method:
            raise Fail(f"auth method {method.get('id')!r} carries a command")
        if not isinstance(method.get("args") or [], list) or not isinstance(method.get("env") or {}, dict):
            raise Fail(f"`args` or `env` of auth method {method.get('id')!r} has the wrong type")


@case("agent/authentication/succeeds", rules=(76,), shares=ALONE)
async def succeeds(probe: AgentProbe) -> None:
    """A successful authenticate has an empty object as its result.

    Authenticates with the method named as `login`; expects an object with nothing but _meta.
    """
    await probe.initialize()
    answer = await probe.call("authenticate", {"methodId": _login(probe)})
    expect_empty(answer, "authenticate")


@case("agent/authentication/unknown-method", rules=(337,), level="SHOULD", shares=ALONE, provokes=True)
async def unknown_method(probe: AgentProbe) -> None:
    """authenticate with an id that was not advertised is refused with -32602.

    Authenticates with an id that was not advertised; expects -32602.
    """
    await probe.initialize()
    _login(probe)
    answer = await probe.call("authenticate", {"methodId": "no-such-method"})
    expect_code(answer, -32602, "an unknown auth method")


@case("agent/authentication/required", rules=(77, 338), level="SHOULD", shares=ALONE)
async def required(probe: AgentProbe) -> None:
    """A session that needs a login first is refused with -32000.

    Opens a session before and after authenticate; if only the second succeeds, expects -32000 for the first.
    """
    await probe.initialize()
    _login(probe)
    before = await probe.call("session/new", probe.session_params())
    if not before.is_error:
        raise Skip("the agent needs no login")
    expect_code(before, -32000, "session/new before a login")


@case("agent/authentication/opens", rules=(78,), level="SHOULD", shares=ALONE)
async def opens(probe: AgentProbe) -> None:
    """After authenticate, sessions are no longer refused with -32000.

    Authenticates and opens a session; expects no -32000.
    """
    await probe.initialize()
    await probe.call("authenticate", {"methodId": _login(probe)})
    answer = await probe.call("session/new", probe.session_params())
    if answer.code == -32000:
        raise Fail(f"session/new after a login was answered with {answer}")


@case("agent/authentication/logout", rules=(76, 80), shares=ALONE)
async def logout(probe: AgentProbe) -> None:
    """logout has an empty object as its result, and sessions need a login again.

    Authenticates, logs out and opens a session; expects an empty result, and -32000 if a login was needed before.
    """
    await probe.initialize()
    login = _login(probe)
    probe.require("auth.logout")
    before = await probe.call("session/new", probe.session_params())
    await probe.call("authenticate", {"methodId": login})
    answer = await probe.call("logout", {})
    expect_empty(answer, "logout")
    after = await probe.call("session/new", probe.session_params())
    if before.code == -32000 and after.code != -32000:
        raise Fail(f"session/new after logout was answered with {after}")


def _login(probe: AgentProbe) -> str:
    if not probe.prompts.login:
        raise Skip("no auth method is known that needs no user; `login` in a file of prompts names one")
    return probe.prompts.login


def _all_methods(probe: AgentProbe) -> list[dict[str, Any]]:
    methods = probe.answered.get("authMethods")
    if methods is None:
        return []
    if not isinstance(methods, list):
        raise Fail(f"authMethods is {methods!r}")
    return [method if isinstance(method, dict) else {} for method in methods]


def _methods(probe: AgentProbe) -> list[dict[str, Any]]:
    methods = _all_methods(probe)
    if not methods:
        raise Skip("the agent advertises no auth methods")
    return methods
