"""How the progress of a turn shows decisions on permission requests."""

from __future__ import annotations

import io

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
