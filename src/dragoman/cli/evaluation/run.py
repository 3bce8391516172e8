"""`dragoman eval run`: runs tasks with an agent and writes the results."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dragoman.cli import exits
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.evaluation.tasks import chosen_tasks
from dragoman.errors import ConfigError
from dragoman.evaluation.attempt import drive_by_exec
from dragoman.evaluation.drive import AgentChoice
from dragoman.evaluation.matrix import Matrix
from dragoman.evaluation.page import page_of
from dragoman.evaluation.results import COUNTED, EvalResults
from dragoman.evaluation.solutions import solution_driver
from dragoman.evaluation.summary import HEADER, rows_of, sentences
from dragoman.settings.documents import read_document
from dragoman.settings.file import user_file
from dragoman.settings.places import config_dir
from dragoman.text.terminal import plain
from dragoman.workspace.atomic import replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.command import CliCall
    from dragoman.evaluation.attempt import Driver
    from dragoman.evaluation.task import Task

PAGE = "report.html"


def run_tasks(call: CliCall) -> int:
    """Run the chosen tasks. Raises: CliError, ConfigError."""
    given = call.given
    tasks = chosen_tasks(call)
    choice = _choice(call)
    folder = _folder(given.output)
    factor = positive("--time-factor", given.time_factor, 1.0)
    environment = dict(os.environ)

    def driver_of(task: Task) -> Driver:
        if given.solution is not None:
            return solution_driver(task, given.solution, environment)
        return drive_by_exec(choice, environment, factor=factor)

    if given.solution is not None:
        for task in tasks:
            if not task.obstacles:
                driver_of(task)  # a missing solution is reported before anything is run
    title = f"the {given.solution} solutions, played by a script" if given.solution else choice.title
    results = EvalResults(title=title, agent=choice.agent, command=list(choice.command), model=choice.model)
    results.solution = given.solution
    matrix = Matrix(
        tasks,
        results,
        driver_of=driver_of,
        runs=whole("--runs", given.runs),
        jobs=whole("--jobs", given.jobs),
        folder=folder,
        keep=given.keep,
        is_sandboxed=choice.sandbox != "off" or choice.sandboxes_agent,
        note=write_note,
    )
    if choice.sandbox == "off" and not choice.sandboxes_agent and given.solution is None:
        write_note("the agent works in a copy of each project, with your rights; see --sandbox and --sandbox-agent")
    was_interrupted = run_matrix(matrix)
    _write_page(folder, results)
    if given.json:
        write_json(results)
    else:
        show(results)
    if was_interrupted:
        return exits.CANCELLED
    counted = [run for run in results.runs if run.outcome in COUNTED]
    if not counted:
        return exits.AGENT_ERROR
    return exits.OK if all(run.outcome == "passed" for run in counted) else exits.CHECK_FAILED


def run_matrix(matrix: Matrix) -> bool:
    """Do the runs; Ctrl-C and SIGTERM end them and leave partial results. Returns whether that happened."""
    stopped: list[int] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            if not stopped:
                write_note("ending the runs that are under way; what ended before is kept")
            stopped.append(number)
            matrix.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        await matrix.run()

    asyncio.run(work())
    return bool(stopped)


def show(results: EvalResults) -> None:
    """Write the table and what it shows."""
    write_table(HEADER, [row.cells() for row in rows_of(results)])
    sys.stdout.write("\n" + "".join(f"{plain(text)}\n" for text in sentences(results)))


def _choice(call: CliCall) -> AgentChoice:
    given = call.given
    if given.solution is not None and (given.agent or call.program or given.model):
        raise exits.CliError(
            "--solution plays a script, so it takes neither an agent nor a model", hint="leave one of them out"
        )
    if given.agent is not None and call.program is not None:
        raise exits.CliError("-a and a command after -- name two agents", hint="leave one of them out")
    missing = [name for name in given.env if name not in os.environ]
    if missing:
        raise exits.CliError(f"--env {missing[0]}: this variable is not set", hint="set it, or leave the option out")
    # Without an agent `exec` takes the user's default, which a home of its own does not have.
    agent = given.agent if given.agent or call.program or given.keep_home else "dragoman"
    return AgentChoice(
        agent=agent,
        command=from_here(call.program or ()),
        model=given.model,
        mode=given.mode,
        protocol=given.protocol,
        sandbox=given.sandbox or "off",
        sandboxes_agent=given.sandbox_agent,
        is_sure=given.yes,
        keeps_home=given.keep_home,
        passed=tuple(given.env),
        settings=b"" if given.solution is not None else _agents_of_user(),
    )


def from_here(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command, files of this folder by their whole path: each run has a folder of its own."""
    found = []
    for at, word in enumerate(words):
        is_path = at > 0 or os.sep in word  # a program without a slash is looked for on the PATH
        found.append(os.path.abspath(word) if is_path and os.path.isfile(word) else word)
    return tuple(found)


def _agents_of_user() -> bytes:
    """Return the user's `settings.json` with only the agents in it; empty without any. Raises: ConfigError."""
    document = read_document(user_file(config_dir()), has_comments=True, may_repeat=False)
    agents = document.value.get("agent_servers") if document is not None and isinstance(document.value, dict) else None
    return msgspec.json.encode({"agent_servers": agents}) if agents else b""


def _folder(name: str | None) -> Path | None:
    if name is None:
        return None
    folder = Path(name).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output {folder}: {error.strerror or error}; name a folder that can be written") from None
    if (folder / "results.json").exists():
        raise exits.CliError(f"--output {folder}: there are results already", hint="name a new folder, or remove them")
    return folder


def _write_page(folder: Path | None, results: EvalResults) -> None:
    if folder is not None:
        replace_file(str(folder / PAGE), page_of(results).encode("utf-8", "replace"))
        write_note(f"results: {folder / 'results.json'}, {folder / PAGE}")


def whole(flag: str, text: str | None, default: int = 1) -> int:
    """Read a whole number above 0. Raises: CliError."""
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise exits.CliError(f"{flag} takes a whole number above 0, not {text!r}", hint="see dragoman eval --help")
    return int(text)


def positive(flag: str, text: str | None, default: float) -> float:
    """Read a number above 0. Raises: CliError."""
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise exits.CliError(f"{flag} takes a number above 0, not {text!r}", hint="see dragoman eval --help")
    return number
