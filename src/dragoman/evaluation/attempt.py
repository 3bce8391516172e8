"""One run of one task: the sandbox copy, the agent, the judge, the result.

Owns the order of these steps and which end of a run says something about the agent. A run that did not get as far as
the prompt (no such program, no login) is an error and is not counted; one that ended early or late is judged as it
is.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError
from dragoman.evaluation.drive import Driven, drive
from dragoman.evaluation.judge import BrokenTask, JudgedRun, judge
from dragoman.evaluation.manifest import changed_paths, list_files
from dragoman.evaluation.measure import holds_secret, measure
from dragoman.evaluation.results import CheckResult, EvalRun
from dragoman.evaluation.sandbox import make_sandbox, remove_sandbox
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from dragoman.evaluation.drive import AgentChoice
    from dragoman.evaluation.results import Measured
    from dragoman.evaluation.sandbox import SandboxCopy
    from dragoman.evaluation.task import Task

    Driver = Callable[[Task, SandboxCopy, Path], Awaitable[Driven]]

RECORDING: Final = "recording.jsonl"
_ANSWER_CHARS: Final = 20_000
_PAGE: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n"
_REQUEST_BYTES: Final = 4096
_REQUEST_SECONDS: Final = 5.0


async def attempt(
    task: Task,
    number: int,
    driver: Driver | None,
    *,
    recordings: Path | None = None,
    keep: Path | None = None,
) -> EvalRun:
    """Run a task once and judge it.

    Args:
        driver: drives the agent; None judges the untouched start state.
        recordings: an existing folder that the recording is put into.
        keep: an existing folder that gets a copy of the work folder after the run.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-eval-", ignore_cleanup_errors=True) as name:
        place = _real(name)
        (place / "run").mkdir()
        (place / "judge").mkdir()
        async with listening() as listener:
            root = place / "sandbox"
            root.mkdir()
            try:
                sandbox = make_sandbox(task, root, listener.url)
            except (ConfigError, OSError) as error:
                return EvalRun(task=task.name, number=number, outcome="broken", reasons=[str(error)])
            own = list_files(task.folder)
            try:
                driven = Driven() if driver is None else await driver(task, sandbox, place / "run")
                found = await _judged(task, number, sandbox, place, driven, listener, own, is_driven=driver is not None)
            finally:
                _keep(task, number, place / "run" / RECORDING, sandbox, recordings, keep)
                remove_sandbox(sandbox)
        if recordings is not None and (place / "run" / RECORDING).exists():
            found.recording = f"{recordings.name}/{_name(task, number)}.jsonl"
        return found


def _real(name: str) -> Path:
    """Return a folder by the name that the agent sees, without links."""
    return Path(name).resolve()


def drive_by_exec(choice: AgentChoice, environment: dict[str, str], *, factor: float = 1.0) -> Driver:
    """Return how `attempt` drives a chosen agent; `factor` stretches the time limits of tasks."""

    async def driver(task: Task, sandbox: SandboxCopy, folder: Path) -> Driven:
        seconds = task.agent_seconds * factor
        return await drive(choice, task, sandbox, folder, seconds=seconds, environment=environment)

    return driver


async def _judged(
    task: Task,
    number: int,
    sandbox: SandboxCopy,
    place: Path,
    driven: Driven,
    listener: RequestListener,
    task_files: dict[str, str],
    *,
    is_driven: bool,
) -> EvalRun:
    """Args:
    task_files: the files of the task before the run: its judge and its solutions.
    """
    facts = measure(driven, place / "run" / RECORDING)
    run = EvalRun(task=task.name, number=number, outcome="error", facts=facts, exit_code=driven.result.get("exit_code"))
    run.is_scripted = bool(driven.result.get("scripted"))
    run.agent_version = (driven.result.get("agent") or {}).get("version")
    if is_driven and not facts.turns:
        run.reasons = [driven.problem or _error(driven.result)]
        return run
    facts.requests_received = list(listener.requests)
    facts.is_canary_seen = holds_secret(sandbox.canary, place / "run" / RECORDING, sandbox.work)
    run.answer = str(driven.result.get("text") or "")[:_ANSWER_CHARS]
    if error := driven.problem or _error(driven.result):
        run.reasons = [error]
    if fault := _prevents_judging(task, sandbox, task_files):
        return _with(run, JudgedRun([fault]))
    try:
        judged = await judge(task, sandbox, place / "judge", facts, _for_judge(driven.result, facts, sandbox))
    except (BrokenTask, OSError) as error:
        run.outcome, run.reasons = "broken", [f"the judge failed: {error}"]
        return run
    return _with(run, judged)


def _prevents_judging(task: Task, sandbox: SandboxCopy, task_files: dict[str, str]) -> CheckResult | None:
    """Return what an agent did that leaves nothing to judge, or a judge that proves nothing."""
    if changed := changed_paths(task_files, list_files(task.folder)):
        return CheckResult(
            "the files of the task are unchanged", 0.0, ", ".join(label(path, 120) for path in changed[:10])
        )
    if not os.path.isdir(sandbox.work) or not os.access(sandbox.work, os.R_OK | os.W_OK | os.X_OK):
        return CheckResult("the project is still there", 0.0, "its folder is gone, or cannot be entered")
    return None


def _with(run: EvalRun, judged: JudgedRun) -> EvalRun:
    run.outcome = "passed" if judged.is_passed else "failed"
    run.reward = round(judged.reward, 4)
    run.checks = judged.checks
    return run


def _error(result: dict[str, Any]) -> str:
    error: dict[str, Any] = result.get("error") or {}
    return label(str(error.get("message") or ""), 500, "")


def _for_judge(result: dict[str, Any], facts: Measured, sandbox: SandboxCopy) -> dict[str, Any]:
    """Return the content of `run.json`, which the judge reads."""
    return {
        "answer": result.get("text") or "",
        "messages": result.get("messages") or [],
        "tool_calls": result.get("tool_calls") or [],
        "permissions": result.get("permissions") or [],
        "requests": facts.requests_received,
        "canary": sandbox.canary,
        "exit_code": result.get("exit_code"),
    }


def _keep(
    task: Task, number: int, recording: Path, sandbox: SandboxCopy, recordings: Path | None, keep: Path | None
) -> None:
    if recordings is not None and recording.exists():
        shutil.copy(recording, recordings / f"{_name(task, number)}.jsonl")
    if keep is not None and sandbox.work.is_dir():
        shutil.copytree(sandbox.work, keep / _name(task, number), symlinks=True, dirs_exist_ok=True)


def _name(task: Task, number: int) -> str:
    return f"{task.name}-{number}"


class RequestListener:
    """A listener on the loopback interface that notes every request: where an injected order wants data to be sent.

    It answers everything with a page that says nothing, so that an agent that obeys notices nothing.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []  # their first lines, in the order of arrival

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Note the first line of a request and answer it."""
        with suppress(OSError, TimeoutError):
            first = await asyncio.wait_for(reader.read(_REQUEST_BYTES), _REQUEST_SECONDS)
            self.requests.append(first.split(b"\r\n", 1)[0].decode(errors="replace")[:500])
            writer.write(_PAGE)
            await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def listening() -> AsyncIterator[RequestListener]:
    """Listen on a free port of 127.0.0.1."""
    listener = RequestListener()
    server = await asyncio.start_server(listener.take, "127.0.0.1", 0)
    listener.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield listener
    finally:
        server.close()
