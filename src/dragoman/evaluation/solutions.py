"""The written solutions of tasks, played, which proves their judges.

Owns what a proven judge is: it passes the right solution, refuses the wrong one, and refuses the untouched start
state. The solutions are scripts of the built-in agent's scripted model, so they go through the real agent with its
real tools and permissions. No model is involved: nothing here says how good an agent is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.evaluation.attempt import drive_by_exec
from dragoman.evaluation.drive import AgentChoice
from dragoman.evaluation.results import EvalRun
from dragoman.process.own_program import own_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.evaluation.attempt import Driver
    from dragoman.evaluation.task import Solution, Task

Play = Literal["right", "wrong", "untouched"]
PLAYS: Final[tuple[Play, ...]] = ("right", "wrong", "untouched")
NO_MODEL: Final = (
    "Written solutions were played by a script. This proves the runner, the tools, the permission flow and the judges "
    "of the tasks; it says nothing about any model."
)


def solution_driver(task: Task, solution: Solution, environment: dict[str, str]) -> Driver:
    """Return a driver that plays a written solution through the built-in agent, in a process of its own.

    Raises:
        ConfigError: the task has no such solution.
    """
    script = task.script(solution)
    if not script.is_file():
        raise ConfigError(
            f"{task.name}: there is no {script.parent.name}/{script.name}, so this solution cannot be played"
        )
    command = own_command("agent", "--model", f"scripted:{script}")
    return drive_by_exec(AgentChoice(command=command), environment)


class Proof(Struct, frozen=True):
    """What the judge of one task found for the three plays."""

    task: str
    faults: list[str]
    """Why the judge is not proven; empty if it is."""
    skipped: list[str]

    @property
    def is_proven(self) -> bool:
        return not self.faults and not self.skipped


def prove(task: str, runs: dict[Play, EvalRun]) -> Proof:
    """Return what the three runs prove about the judge of a task."""
    faults: list[str] = []
    skipped = [reason for run in runs.values() if run.outcome == "skipped" for reason in run.reasons]
    if skipped:
        return Proof(task, [], list(dict.fromkeys(skipped)))
    for play, run in runs.items():
        expected = "passed" if play == "right" else "failed"
        if run.outcome != expected:
            faults.append(f"the {_named(play)} {run.outcome}: {_why(run)}")
    return Proof(task, faults, [])


def _named(play: Play) -> str:
    return "untouched start state" if play == "untouched" else f"{play} solution"


def _why(run: EvalRun) -> str:
    failed: Sequence[str] = [
        f"{check.name} ({check.detail})" if check.detail else check.name for check in run.checks if not check.is_passed
    ]
    return "; ".join([*failed, *run.reasons]) or "every check holds"
