"""`dragoman eval check-tasks`: proves the judges of tasks with their written solutions.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.evaluation.run import run_matrix, whole
from dragoman.cli.evaluation.tasks import chosen_tasks
from dragoman.evaluation.matrix import Matrix
from dragoman.evaluation.results import EvalResults
from dragoman.evaluation.solutions import NO_MODEL, PLAYS, prove, solution_driver
from dragoman.text.visible import label

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.evaluation.attempt import Driver
    from dragoman.evaluation.results import EvalRun
    from dragoman.evaluation.solutions import Play, Proof
    from dragoman.evaluation.task import Task


def check_tasks(call: CliCall) -> int:
    """Play the right and the wrong solution of each task, judge it untouched as well, and show what that proves."""
    tasks = chosen_tasks(call)
    jobs = whole("--jobs", call.given.jobs)
    runs: dict[str, dict[Play, EvalRun]] = {task.name: {} for task in tasks}
    for play in PLAYS:
        matrix = Matrix(
            tasks,
            EvalResults(title=play),
            driver_of=lambda task, play=play: _driver(task, play),  # type: ignore[misc]  # mypy cannot infer a default
            jobs=jobs,
            note=lambda text, play=play: write_note(f"{play}: {text}"),  # type: ignore[misc]  # as above
        )
        was_interrupted = run_matrix(matrix)
        if was_interrupted:
            return exits.CANCELLED
        for run in matrix.results.runs:
            runs[run.task][play] = run
    proofs = [prove(name, found) for name, found in runs.items()]
    if call.given.json:
        write_json(
            {
                "proofs": [
                    {"task": proof.task, "is_proven": proof.is_proven, "faults": proof.faults, "skipped": proof.skipped}
                    for proof in proofs
                ]
            }
        )
    else:
        write_table(("TASK", "JUDGE", "WHY"), [_row(proof) for proof in proofs])
        sys.stdout.write(f"\n{NO_MODEL}\n")
    return exits.CHECK_FAILED if any(proof.faults for proof in proofs) else exits.OK


def _driver(task: Task, play: Play) -> Driver | None:
    return None if play == "untouched" else solution_driver(task, play, dict(os.environ))


def _row(proof: Proof) -> tuple[str, str, str]:
    state = "proven" if proof.is_proven else "not proven" if proof.faults else "skipped"
    return proof.task, state, label("; ".join(proof.faults or proof.skipped), 160, "")
