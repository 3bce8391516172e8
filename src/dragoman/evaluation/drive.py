"""The drive of an agent through one task: a `dragoman exec` of its own, in the sandbox copy.

Owns the command line of that program, when its processes are looked at, and how it is ended. Theory of operation:
`exec` writes one event per line. At the event `session` the agent has been started and the prompt is sent next, so
the processes of that moment are the agent's own. At the event `result` the turn is over, and with `--hold` the agent
is not ended before stdin is: what is there then, works in the project and does not end within a moment was started by
the turn and left behind. After that `exec` ends the agent with all its processes; what carries the mark of the run
even then escaped, is reported and killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.evaluation.sandbox import MARK, agent_environment, mcp_config
from dragoman.policy.paths import is_below
from dragoman.process import proctable
from dragoman.process.child import Child, Patience
from dragoman.process.own_program import own_command
from dragoman.process.sweep import marked
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dragoman.evaluation.sandbox import SandboxCopy
    from dragoman.evaluation.task import Task

# A run that gets a signal cancels its turn, waits for the agent and writes its result.
_PATIENCE: Final = Patience(stdin_seconds=0.2, term_seconds=15.0)
# `exec` ends a turn by itself when the time is up; this much later it is taken to hang.
_HANG_SECONDS: Final = 60.0
_MOMENT_SECONDS: Final = 1.0  # for processes that are just ending when the turn ends
_LOOK_SECONDS: Final = 0.05
_LINE_BYTES: Final = 64 << 20  # the result has the whole answer and every tool call


class AgentChoice(Struct, frozen=True, kw_only=True):
    """Which agent is measured, and how it is started."""

    agent: str | None = None
    command: tuple[str, ...] = ()
    model: str | None = None
    mode: str | None = None
    protocol: str | None = None
    sandbox: str = "off"
    sandboxes_agent: bool = False
    is_sure: bool = False
    """A well-known agent may be downloaded without a question."""
    keeps_home: bool = False
    passed: tuple[str, ...] = ()
    """Names of more variables that the agent gets."""
    settings: bytes = b""
    """A `settings.json` for the agent's home, with the agents that the user defined."""

    @property
    def title(self) -> str:
        """The agent and its model, for people."""
        named = self.agent or " ".join(self.command) or "the default agent"
        return f"{named} with {self.model}" if self.model else named


class Driven(Struct, kw_only=True):
    """The result of driving an agent through a task."""

    result: dict[str, Any] = {}
    """The result of `dragoman exec`; empty if there was none."""
    seconds: float = 0.0
    cpu_seconds: float | None = None
    """Of the agent, its commands and the `exec` that drives it."""
    left: tuple[str, ...] = ()
    """Command lines of processes that the turn left behind."""
    problem: str = ""
    """Why there is no result."""


def command_line(choice: AgentChoice, task: Task, sandbox: SandboxCopy, folder: Path, seconds: float) -> list[str]:
    """Return the words of the `dragoman exec` for a run; `folder` has its files and gets the recording."""
    words = [*own_command("exec"), "--output", "events", "--quiet", "--no-ledger", "--no-snapshots"]
    words.append("--hold")
    words += ["--cwd", str(sandbox.work), "--file", str(folder / "instruction.md")]
    words += ["--record", str(folder / "recording.jsonl"), "--timeout", f"{seconds:g}"]
    for option, rules in (("--allow", task.settings.allow), ("--deny", task.settings.deny)):
        for rule in rules:
            words += [option, sandbox.filled(rule)]
    words += ["--dangerously-allow-all"] if task.settings.allows_all else []
    if task.mcp_servers:
        words += ["--mcp-config", str(folder / "servers.json")]
    given = {"--model": choice.model, "--mode": choice.mode, "--protocol": choice.protocol, "-a": choice.agent}
    for option, value in given.items():
        words += [option, value] if value is not None else []
    words += ["--sandbox", choice.sandbox] if choice.sandbox != "off" else []
    words += ["--sandbox-agent"] if choice.sandboxes_agent else []
    words += ["--yes"] if choice.is_sure else []
    return [*words, "--", *choice.command] if choice.command else words


async def drive(
    choice: AgentChoice, task: Task, sandbox: SandboxCopy, folder: Path, *, seconds: float, environment: dict[str, str]
) -> Driven:
    """Run the agent until its turn is over and all its processes have ended.

    Args:
        folder: an empty folder for the files of the run; `recording.jsonl` is written there.
        seconds: how long the turn may take.
        environment: of this program; only some of it is passed on.
    """
    (folder / "instruction.md").write_text(task.instruction, encoding="utf-8")
    (folder / "servers.json").write_bytes(msgspec.json.encode(mcp_config(task, sandbox)))
    env = agent_environment(task, sandbox, environment, keeps_home=choice.keeps_home, passed=choice.passed)
    if choice.settings and not choice.keeps_home:
        config = sandbox.home / "dragoman" / "config"
        config.mkdir(parents=True)
        (config / "settings.json").write_bytes(choice.settings)
    words = command_line(choice, task, sandbox, folder, seconds)
    begin = monotonic()
    child = Child.spawn(words, cwd=sandbox.root, env=env, inherit_env=False, patience=_PATIENCE)
    stdin, stdout = child.take_pipes()
    watch = _Watch(sandbox, child.marker, server_words=_server_words(task, sandbox))
    problem = ""
    try:
        async with asyncio.timeout(seconds + _HANG_SECONDS):
            await _read(stdout, watch.event)
            await watch.look_around()
            os.close(stdin)
            stdin = -1
            await child.wait()
    except TimeoutError:
        problem = f"dragoman exec did not end {_HANG_SECONDS:g} s after the time limit"
    except ValueError:
        problem = f"the agent wrote more than {_LINE_BYTES >> 20} MiB, which is not read"
    finally:
        if stdin >= 0:
            os.close(stdin)
        await child.close()
        watch.end()
    if not watch.result and not problem:
        last = child.stderr_tail().strip().splitlines()
        problem = label(last[-1] if last else f"dragoman exec ended with code {child.returncode}", 500)
    took = monotonic() - begin
    return Driven(
        result=watch.result, seconds=took, cpu_seconds=child.cpu_seconds, left=tuple(watch.left), problem=problem
    )


def _server_words(task: Task, sandbox: SandboxCopy) -> tuple[str, ...]:
    """Return words by which the processes of the task's own servers are known."""
    return tuple(sandbox.filled(word) for server in task.mcp_servers for word in server.args if "{servers}" in word)


async def _read(fd: int, take: Callable[[bytes], bool]) -> None:
    """Pass lines on until one is the last, or there are no more."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0))
    try:
        while line := await reader.readline():
            if take(line):
                break
    finally:
        transport.close()


class _Watch:
    """The events of a run as they come, and its processes."""

    def __init__(self, sandbox: SandboxCopy, marker: str, server_words: tuple[str, ...]) -> None:
        self.result: dict[str, Any] = {}
        self.left: list[str] = []
        # Commands that `exec` runs for an agent have a clean environment; only the marker of their tree is left in it.
        self._marks = (f"{MARK}={sandbox.mark}", marker)
        self._work = os.path.realpath(sandbox.work)
        self._root = os.path.realpath(sandbox.root)
        self._server_words = server_words
        self._before: set[int] = set()

    def event(self, line: bytes) -> bool:
        """Take an event; returns whether it is the result."""
        try:
            found = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return False
        match found.get("event") if isinstance(found, dict) else None:
            case "session":
                self._before = self._processes()
            case "result":
                self.result = found["result"]
                return True
        return False

    async def look_around(self) -> None:
        """Note what the turn left behind; the agent still runs."""
        deadline = monotonic() + _MOMENT_SECONDS
        while (found := self._started()) and monotonic() < deadline:  # noqa: ASYNC110  # nothing reports their end
            await asyncio.sleep(_LOOK_SECONDS)
        self.left = found

    def _processes(self) -> set[int]:
        """Return the processes of the run: by their mark or, if one has lost its environment, by the folder it works
        in.

        A shell in which the user looks at that folder has a terminal, and is none of them.
        """
        return {pid for mark in self._marks for pid in marked(mark)} | set(proctable.working_below(self._root))

    def _started(self) -> list[str]:
        """Return the processes that the turn started in the project and that still run."""
        found: list[str] = []
        for pid in sorted(self._processes() - self._before):
            with suppress(OSError):
                words = proctable.command_line(pid)
                folder = os.path.realpath(os.readlink(f"/proc/{pid}/cwd"))
                if is_below(folder, self._work) and not any(word in words for word in self._server_words):
                    found.append(label(words, 200))
        return found

    def end(self) -> None:
        """Kill what is still there although the agent was ended with all its processes."""
        for pid in sorted(self._processes()):
            with suppress(OSError):
                words = label(proctable.command_line(pid), 200)
                os.kill(pid, signal.SIGKILL)
                self.left.append(f"{words} (it escaped)")
