"""Terminals of the client: how a command is started, and that each is released, whatever happens."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Fail, Inconclusive, case
from dragoman.conformance.conversation import Silence
from dragoman.conformance.expect import is_absolute

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn

_CREATE = "terminal/create"
_RELEASE = "terminal/release"


@case("agent/terminals/create", rules=(283,))
async def create(probe: AgentProbe) -> None:
    """A terminal is created with a command, and lists and an absolute folder if it has any.

    Leads the agent to run a command; expects the members of terminal/create as the schema has them.
    """
    params = (await probe.served("run", _CREATE)).request.params
    if not isinstance(params.get("command"), str) or not params["command"]:
        raise Fail(f"`command` is {params.get('command')!r}")
    if not all(isinstance(argument, str) for argument in _list(params, "args")):
        raise Fail(f"`args` is {params.get('args')!r}")
    for variable in _list(params, "env"):
        if not isinstance(variable, dict) or not all(isinstance(variable.get(key), str) for key in ("name", "value")):
            raise Fail(f"an entry of `env` is {variable!r}, not a name and a value")
    cwd, limit = params.get("cwd"), params.get("outputByteLimit")
    if cwd is not None and not is_absolute(cwd):
        raise Fail(f"`cwd` is {cwd!r}, which is not absolute")
    if limit is not None and (type(limit) is not int or limit < 0):
        raise Fail(f"`outputByteLimit` is {limit!r}")


@case("agent/terminals/command-is-a-program", rules=(284,), level="SHOULD")
async def command_is_a_program(probe: AgentProbe) -> None:
    """`command` is a program and `args` its arguments; a shell line names the shell.

    Leads the agent to run a shell line; expects that `command` is not a shell line.
    """
    created = (await probe.served("run", _CREATE, command="echo one && echo two")).request
    command = str(created.params.get("command"))
    if any(character in command for character in " ;&|") and shutil.which(command) is None:
        raise Fail(f"`command` is {command!r}, which is not a program")


@case("agent/terminals/released", rules=(292,))
async def released(probe: AgentProbe) -> None:
    """Every terminal is released.

    Leads the agent to run a command; expects one terminal/release for each terminal by the end of the turn.
    """
    turn = (await probe.served("run", _CREATE)).turn
    await _expect_released(probe, turn)


@case("agent/terminals/released-when-cancelled", rules=(195, 292))
async def released_when_cancelled(probe: AgentProbe) -> None:
    """A terminal is released also when its turn is cancelled.

    Cancels while a command runs; expects terminal/release for each terminal.
    """
    turn = await probe.in_command()
    await probe.settle()
    probe.cancel(turn.session_id)
    await turn.end()
    if not turn.sent(_CREATE):
        raise Inconclusive("the agent ran the command by itself, not in the client's terminal")
    await _expect_released(probe, turn)


@case("agent/terminals/released-after-error", rules=(292,))
async def released_after_error(probe: AgentProbe) -> None:
    """A terminal is released also when waiting for it fails.

    Answers terminal/wait_for_exit and terminal/output with errors; expects terminal/release all the same.
    """
    probe.services.errors |= {"terminal/wait_for_exit": -32603, "terminal/output": -32603}
    turn = (await probe.served("run", _CREATE)).turn
    await _expect_released(probe, turn)


@case("agent/terminals/create-fails", rules=(25, 339))
async def create_fails(probe: AgentProbe) -> None:
    """A terminal that cannot be created does not leave the prompt without an answer.

    Answers terminal/create with the error -31999; expects an answer to the prompt, and the agent to live.
    """
    probe.services.errors[_CREATE] = -31999
    await probe.served("run", _CREATE)
    await probe.require_alive("a terminal that could not be created")


@case("agent/terminals/shown-before-release", rules=(251,), level="SHOULD")
async def shown_before_release(probe: AgentProbe) -> None:
    """A terminal that is shown in a tool call is shown before it is released.

    Leads the agent to run a command; expects the content of type terminal before terminal/release.
    """
    turn = (await probe.served("run", _CREATE)).turn
    gone: set[str] = set()
    was_shown = False
    for message in probe.since(turn.mark):
        if message.method == _RELEASE:
            gone.add(str(message.params.get("terminalId")))
        update = message.params.get("update")
        for item in (update.get("content") or ()) if isinstance(update, dict) else ():
            if isinstance(item, dict) and item.get("type") == "terminal":
                if item.get("terminalId") in gone and not was_shown:
                    raise Fail("a terminal was first shown after it had been released")
                was_shown = True
    if not was_shown:
        raise Inconclusive("the agent showed no terminal in its tool calls")


async def _expect_released(probe: AgentProbe, turn: AgentTurn) -> None:
    created = sum(request.params.get("sessionId") == turn.session_id for request in turn.sent(_CREATE))
    try:
        await probe.wait_for(
            lambda _: len(turn.sent(_RELEASE)) >= created,
            "terminal/release",
            probe.settings.timeout_seconds,
            since=turn.mark,
        )
    except Silence as silence:
        raise Fail(f"{created} terminals were created and {len(turn.sent(_RELEASE))} released") from silence


def _list(params: dict[str, Any], member: str) -> list[Any]:
    value = params.get(member)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Fail(f"`{member}` is {value!r}")
    return value
