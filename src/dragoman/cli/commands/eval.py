"""`dragoman eval`: coding tasks for agents. Each action has a module in `cli/evaluation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.named_agent import AGENT
from dragoman.cli.suggestions import task_names

if TYPE_CHECKING:
    from collections.abc import Callable

_SEE_HELP: Final = "see dragoman eval --help"
_CHOSEN: Final = ("task", "tasks")


class _Action(NamedTuple):
    """What an action takes: words, options, and a program."""

    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    takes_program: bool = False


ACTIONS: Final = {
    "list": _Action((), (*_CHOSEN, "json")),
    "show": _Action(("TASK",), ("tasks", "json")),
    "run": _Action(
        (),
        (
            *_CHOSEN,
            *("agent", "model", "mode", "protocol", "solution", "runs", "jobs", "output", "keep", "time_factor"),
            *("sandbox", "sandbox_agent", "keep_home", "env", "yes", "json"),
        ),
        takes_program=True,
    ),
    "check-tasks": _Action((), (*_CHOSEN, "jobs", "json")),
    "report": _Action(("FOLDER",), ("html", "json")),
    "compare": _Action(("FOLDER", "FOLDER"), ("html", "json")),
}


def run(call: CliCall) -> int:
    given = call.given
    action = ACTIONS[given.action]
    for option in COMMAND.options:
        name = option.flag.removeprefix("--").replace("-", "_")
        if getattr(given, name) not in (None, False, []) and name not in action.options:
            raise exits.CliError(f"eval {given.action} does not take {option.flag}", hint=_SEE_HELP)
    if call.program is not None and not action.takes_program:
        raise exits.CliError(f"eval {given.action} does not take a command after --", hint=_SEE_HELP)
    if len(given.words) != len(action.words):
        wanted = " ".join(action.words) or "no more words"
        raise exits.CliError(
            f"eval {given.action} takes {wanted}", hint=f"dragoman eval {given.action} {' '.join(action.words)}"
        )
    return _function(given.action)(call)


def _function(action: str) -> Callable[[CliCall], int]:
    """Return the function of an action; the modules of the others are not imported."""
    match action:
        case "list":
            from dragoman.cli.evaluation.tasks import list_tasks as function
        case "show":
            from dragoman.cli.evaluation.tasks import show_task as function
        case "run":
            from dragoman.cli.evaluation.run import run_tasks as function
        case "check-tasks":
            from dragoman.cli.evaluation.check import check_tasks as function
        case "report":
            from dragoman.cli.evaluation.reports import report_results as function
        case _:
            from dragoman.cli.evaluation.reports import compare_results as function
    return function


COMMAND = CliCommand(
    run=run,
    description=(
        "Gives an agent real coding tasks, each in a copy of a small repository with an empty home, and judges\n"
        "what it did with tests that it never saw. Works with every ACP agent. docs/eval.md has the details.\n"
        "  list         the tasks, and which of them cannot be run here\n"
        "  show         one task: its prompt, its limits, what it may change\n"
        "  run          run tasks with an agent; writes results.json, report.html and recordings to --output\n"
        "  check-tasks  prove the judges: right solutions pass, wrong ones and untouched projects fail\n"
        "  report       show results again, or write them as a page\n"
        "  compare      two results, paired by task, with a test of whether the difference can be chance\n\n"
        "The agent works with your rights, in a copy: use --sandbox, --sandbox-agent or a machine you can throw away.\n"
        "exit code: 0 all runs that count passed, 8 a run failed or a judge is not proven, 1 no run counts"
    ),
    arguments=(
        Argument("action", "what to do", choices=tuple(ACTIONS)),
        Argument("words", "a task, or folders with results", is_optional=True, is_repeatable=True),
    ),
    options=(
        AGENT,
        CliOption("--model", "run: the model of the agent, such as anthropic:claude-sonnet-5-5", value="MODEL"),
        CliOption("--mode", "run: the mode of its sessions", value="MODE"),
        CliOption(
            "--protocol",
            "run: the version that it speaks, as for exec",
            value="VERSION",
            choices=("1", "2", "auto", "2025.1"),
        ),
        CliOption(
            "--solution",
            "run: play the written solutions with the scripted model instead of an agent",
            value="WHICH",
            choices=("right", "wrong"),
        ),
        CliOption("--task", "only this task", value="TASK", is_repeatable=True, suggest=task_names),
        CliOption(
            "--tasks", "tasks of this folder, in Harbor's form, instead of ours", value="FOLDER", is_repeatable=True
        ),
        CliOption("--runs", "run: how often each task is run (default: 1)", value="N"),
        CliOption("--jobs", "how many runs there are at the same time (default: 1)", value="N", short="-j"),
        CliOption("--output", "run: a folder for the results", value="FOLDER", short="-o"),
        CliOption("--keep", "run: keep the work folder of each run in the folder of the results"),
        CliOption("--time-factor", "run: multiply the time limits of tasks, for slow models", value="NUMBER"),
        CliOption(
            "--sandbox",
            "run: sandbox for the agent's commands, as for exec",
            value="WHEN",
            choices=("off", "auto", "require"),
        ),
        CliOption("--sandbox-agent", "run: the agent itself runs in a sandbox, too"),
        CliOption(
            "--keep-home", "run: the agent uses your home, settings and rules, for agents that are logged in there"
        ),
        CliOption("--env", "run: pass this variable of your environment on", value="NAME", is_repeatable=True),
        CliOption("--yes", "run: a well-known agent that is not installed may be downloaded"),
        CliOption("--html", "report, compare: write a page", value="FILE"),
        JSON,
    ),
    examples=(
        "dragoman eval list",
        "dragoman eval check-tasks --jobs 2",
        "dragoman eval run --model anthropic:claude-sonnet-5-5 --runs 3 --jobs 2 -o results/sonnet",
        "dragoman eval run -a claude --keep-home --task touching-intervals -o results/claude",
        "dragoman eval run -o results/gemini -- gemini --acp",
        "dragoman eval run --solution right --task csv-export -o results/right",
        "dragoman eval compare results/sonnet results/claude",
    ),
    takes_program=True,
)
