"""How the progress of a turn shows decisions on permission requests."""

from __future__ import annotations

import io
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.cli.prompt.progress import Progress
from dragoman.policy.decide import Decision


def test_a_permission_and_the_check_of_the_file_that_it_is_for_are_one_line() -> None:
    stream = io.StringIO()
    progress = Progress(stream, colour=False, verbose=False)
    asked = Decision(action="allow", decided_by="rule edit:**", title="Write b.txt", kind="edit", paths=("/p/b.txt",))
    other = replace(asked, paths=("/p/c.txt",), title="Write /p/c.txt")
    for decision in (asked, replace(asked, title="Write /p/b.txt"), other):
        progress.decision(decision)
    progress.note("something else")
    progress.decision(other)
    assert [line.partition(" (")[0] for line in stream.getvalue().splitlines()] == [
        "allowed edit: Write b.txt",
        "allowed edit: Write /p/c.txt",
        "something else",
        "allowed edit: Write /p/c.txt",
    ]


def test_a_permission_for_a_command_and_its_start_in_a_shell_are_one_line() -> None:
    stream = io.StringIO()
    progress = Progress(stream, colour=False, verbose=False)
    asked = Decision(
        action="allow", decided_by="rule execute:tee a", title="`tee a < b`", kind="execute", command="tee a < b"
    )
    started = replace(asked, title="", command="/bin/bash -c 'tee a < b'")
    for decision in (asked, started, replace(asked, command="tee c < b", title="`tee c < b`")):
        progress.decision(decision)
    assert [line.partition(" (")[0] for line in stream.getvalue().splitlines()] == [
        "allowed execute: `tee a < b`",
        "allowed execute: `tee c < b`",
    ]


@pytest.mark.parametrize(
    ("action", "decided_by", "line"),
    [
        ("allow", "rule edit:src/** (flag)", "allowed edit: Edit app.py (rule edit:src/** (flag))"),
        ("deny", "rule edit:** (project)", "denied edit: Edit app.py (rule edit:** (project))"),
        ("cancelled", "nobody", "cancelled edit: Edit app.py (nobody)"),
        ("allow", "person", None),
    ],
)
def test_a_decision_is_shown_unless_the_user_made_it(action: Any, decided_by: str, line: str | None) -> None:
    stream = io.StringIO()
    progress = Progress(stream, colour=False, verbose=False)
    progress.decision(Decision(action=action, decided_by=decided_by, title="Edit app.py", kind="edit"))
    assert stream.getvalue().splitlines() == ([] if line is None else [line])
