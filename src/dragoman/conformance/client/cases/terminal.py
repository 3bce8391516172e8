"""Terminals, for clients that offer them: commands that run, output that is cut well, ids that live long enough."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import CaseNeeds, Fail, Inconclusive, Warn, case
from dragoman.conformance.conversation import Silence

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

_NOT_FOUND = -32002
_SLEEP = "sleep 600"
# Short enough for one line of any terminal; each of these letters takes two bytes.
_LETTERS = "é" * 30
_LIMIT = 31


async def _created(probe: ClientProbe, script: str, **more: object) -> str:
    """Open a terminal that runs this shell script."""
    await probe.prompted()
    return await _create(probe, script, **more)


async def _create(probe: ClientProbe, script: str, **more: object) -> str:
    answer = await probe.ask("terminal/create", command="/bin/sh", args=["-c", script], **more)
    terminal_id = answer.fields.get("terminalId")
    if not isinstance(terminal_id, str):
        raise Fail(f"terminal/create was answered with {answer}")
    return terminal_id


async def _call(probe: ClientProbe, verb: str, terminal_id: str) -> dict[str, Any]:
    answer = await probe.ask(f"terminal/{verb}", terminalId=terminal_id)
    if answer.is_error:
        raise Fail(f"terminal/{verb} was answered with {answer}")
    return answer.fields


@case("client/terminal/create-at-once", rules=(285,), level="SHOULD", needs=CaseNeeds(offers=("terminal",)))
async def create_at_once(probe: ClientProbe) -> None:
    """terminal/create gives the terminal's id at once and does not wait for the command.

    Starts a command that takes ten minutes; expects its id right away.
    """
    await probe.prompted()
    try:
        terminal_id = await _create(probe, _SLEEP)
    except Silence as silence:
        raise Fail(f"{silence.message}: the client seems to wait for the command") from None
    await _call(probe, "release", terminal_id)


@case("client/terminal/output", rules=(288,), needs=CaseNeeds(offers=("terminal",)))
async def output(probe: ClientProbe) -> None:
    """terminal/output gives the output so far and whether it was cut; exitStatus only after the end.

    Looks at the output of a command before and after its end; expects arguments, environment and cwd to be kept.
    """
    await probe.prompted()
    folder = probe.scratch()
    gate = folder / "gate"
    script = f'echo "$1:$JUDGE:$(basename "$PWD")"; {_until(gate)}'
    more: dict[str, object] = {"cwd": str(folder), "env": [{"name": "JUDGE", "value": "fair"}]}
    answer = await probe.ask(
        "terminal/create", command="/bin/sh", args=["-c", script, "sh", "a  b; c"], outputByteLimit=10_000, **more
    )
    terminal_id = answer.fields.get("terminalId")
    if not isinstance(terminal_id, str):
        raise Fail(f"terminal/create was answered with {answer}")
    running = await _printed(probe, terminal_id)
    _expect_output(running, is_running=True)
    expected = f"a  b; c:fair:{folder.name}"
    if running["output"].strip() != expected:
        raise Warn(f"the command printed {running['output']!r}; with its args, env and cwd it prints {expected!r}")
    gate.touch()
    await _call(probe, "wait_for_exit", terminal_id)
    _expect_output(await _call(probe, "output", terminal_id), is_running=False)


@case("client/terminal/exit-status", rules=(289,), needs=CaseNeeds(offers=("terminal",)))
async def exit_status(probe: ClientProbe) -> None:
    """The exit status has the exit code as a number, or null and a signal.

    Runs a command that exits with 7, and one that is killed; looks at wait_for_exit and at exitStatus.
    """
    terminal_id = await _created(probe, "exit 7")
    status = await _call(probe, "wait_for_exit", terminal_id)
    _expect_status(status)
    if status.get("exitCode") != 7:
        raise Fail(f"a command that exits with 7 has the exit status {status!r}")
    shown = (await _call(probe, "output", terminal_id)).get("exitStatus")
    if not isinstance(shown, dict):
        raise Fail(f"exitStatus after the end is {shown!r}")
    _expect_status(shown)
    killed = await _create(probe, "kill -9 $$")
    _expect_status(await _call(probe, "wait_for_exit", killed))


@case("client/terminal/wait", rules=(32, 290), level="SHOULD", needs=CaseNeeds(offers=("terminal",)))
async def wait(probe: ClientProbe) -> None:
    """wait_for_exit answers when the command has ended, not before; other requests are answered in that time.

    Waits for a command that waits for a file; expects output to be answered first, and wait_for_exit after it.
    """
    await probe.prompted()
    gate = probe.scratch() / "gate"
    terminal_id = await _create(probe, _until(gate))
    waiting = probe.request(
        "terminal/wait_for_exit", {"sessionId": probe.session_id, "terminalId": terminal_id}, id="waiting"
    )
    await _call(probe, "output", terminal_id)
    if any(message.answers(waiting) for message in probe.incoming):
        raise Fail("wait_for_exit was answered while the command still runs")
    gate.touch()
    await probe.answer(waiting, "answer to wait_for_exit after the end of the command")


@case("client/terminal/character-boundary", rules=(287,), needs=CaseNeeds(offers=("terminal",)))
async def character_boundary(probe: ClientProbe) -> None:
    """Output over the limit is cut between characters, and never longer than the limit.

    Prints sixty bytes of two-byte letters with a limit of 31; expects at most fifteen whole letters.
    """
    terminal_id = await _created(probe, f"printf {_LETTERS}", outputByteLimit=_LIMIT)
    await _call(probe, "wait_for_exit", terminal_id)
    found = await _call(probe, "output", terminal_id)
    text = found.get("output")
    if not isinstance(text, str) or set(text.strip()) - {"é"}:
        raise Fail(f"the output was cut inside a character: {text!r}")
    if len(text.encode()) > _LIMIT:
        raise Fail(f"the output has {len(text.encode())} bytes; the limit is {_LIMIT}")
    if found.get("truncated") is not True:
        raise Fail(f"the output was cut, and truncated is {found.get('truncated')!r}")


@case("client/terminal/keeps-the-end", rules=(286,), level="SHOULD", needs=CaseNeeds(offers=("terminal",)))
async def keeps_the_end(probe: ClientProbe) -> None:
    """Output over the limit loses its beginning, not its end.

    Prints more than the limit; expects the last words of it.
    """
    terminal_id = await _created(probe, "printf 'the beginning and then the end'", outputByteLimit=10)
    await _call(probe, "wait_for_exit", terminal_id)
    text = (await _call(probe, "output", terminal_id)).get("output")
    if not isinstance(text, str) or not text.strip() or not "the beginning and then the end".endswith(text.strip()):
        raise Fail(f"of 'the beginning and then the end' the client kept {text!r}")


@case("client/terminal/kill", rules=(291,), level="SHOULD", needs=CaseNeeds(offers=("terminal",)))
async def kill(probe: ClientProbe) -> None:
    """terminal/kill ends the command and leaves the terminal: its output and exit status can still be asked for.

    Kills a command; expects output and wait_for_exit to be answered afterwards.
    """
    terminal_id = await _created(probe, f"echo before; {_SLEEP}")
    await _printed(probe, terminal_id)
    await _call(probe, "kill", terminal_id)
    await _call(probe, "wait_for_exit", terminal_id)
    found = await _call(probe, "output", terminal_id)
    if "before" not in str(found.get("output")):
        raise Fail(f"after terminal/kill the output is {found.get('output')!r}")


@case("client/terminal/release-kills", rules=(293,), level="SHOULD", needs=CaseNeeds(offers=("terminal",)))
async def release_kills(probe: ClientProbe) -> None:
    """terminal/release ends a command that still runs.

    Releases a terminal whose command notes its process id; expects that process to be gone.
    """
    await probe.prompted()
    note = probe.scratch() / "pid"
    terminal_id = await _create(probe, f"echo $$ > {note}.new && mv {note}.new {note} && echo ready; exec {_SLEEP}")
    await _printed(probe, terminal_id)
    if not note.exists():
        raise Inconclusive("the command runs where the judge cannot see it")
    pid = int(note.read_text())
    await _call(probe, "release", terminal_id)
    for _ in range(40):
        if not _is_alive(pid):
            return
        await asyncio.sleep(probe.settings.timeout_seconds / 40)
    raise Fail("the command still runs after terminal/release")


@case("client/terminal/released-id", rules=(294,), level="SHOULD", needs=CaseNeeds(offers=("terminal",)))
async def released_id(probe: ClientProbe) -> None:
    """After terminal/release the id is not valid any more.

    Releases a terminal and asks for its output; expects an error.
    """
    terminal_id = await _created(probe, "echo done")
    await _call(probe, "release", terminal_id)
    for verb in ("output", "wait_for_exit", "kill", "release"):
        answer = await probe.ask(f"terminal/{verb}", terminalId=terminal_id)
        _expect_not_found(answer, f"terminal/{verb} of a released terminal")


@case("client/terminal/unknown-id", rules=(296,), level="SHOULD", needs=CaseNeeds(offers=("terminal",)))
async def unknown_id(probe: ClientProbe) -> None:
    """An id no terminal has is answered with -32002.

    Calls every method with the id of no terminal; expects -32002.
    """
    await probe.prompted()
    for verb in ("output", "wait_for_exit", "kill", "release"):
        answer = await probe.ask(f"terminal/{verb}", terminalId="no-such-terminal")
        _expect_not_found(answer, f"terminal/{verb} of an unknown terminal")


def _expect_not_found(answer: WireMessage, what: str) -> None:
    if answer.code != _NOT_FOUND:
        raise Fail(f"{what} was answered with {answer}")


async def _printed(probe: ClientProbe, terminal_id: str) -> dict[str, Any]:
    """Wait for the output as soon as there is any."""
    for _ in range(100):
        found = await _call(probe, "output", terminal_id)
        if found.get("output") or found.get("exitStatus"):
            return found
        await asyncio.sleep(probe.settings.timeout_seconds / 100)
    raise Inconclusive("a command that prints at once printed nothing")


def _expect_output(output: dict[str, Any], *, is_running: bool) -> None:
    if not isinstance(output.get("output"), str) or not isinstance(output.get("truncated"), bool):
        raise Fail(f"terminal/output gave {output!r}; it needs output and truncated")
    status = output.get("exitStatus")
    if (status is None) != is_running:
        raise Fail(f"exitStatus is {status!r} {'while the command runs' if is_running else 'after its end'}")


def _expect_status(status: dict[str, Any]) -> None:
    code, name = status.get("exitCode"), status.get("signal")
    if not (code is None or (type(code) is int and code >= 0)) or not isinstance(name, str | None):
        raise Fail(f"an exit status is {status!r}")


def _until(gate: Path) -> str:
    """Return a command that ends when this file appears."""
    return f"while [ ! -e '{gate}' ]; do sleep 0.05; done"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A zombie that was not reaped yet does not run any more.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False
