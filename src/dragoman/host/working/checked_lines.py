"""What the lines between a host and an agent are, and which rules they break, by the checks of `dragoman inspect`.

Each line is checked once, when a client asks for the first time after it came. If lines went before they were checked,
nothing is concluded from what is missing. A module of its own because the checks know the whole protocol: a host starts
without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.trace.entry import Stderr
from dragoman.trace.inspect.document import finding_document, row_document
from dragoman.trace.inspect.timeline import RecordingTimeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.host.working.agent_traffic import KeptLine
    from dragoman.text.secrets import Secrets

_MOST_ROWS: Final = 5_000
"""After so many it begins again with the lines that are still kept, so that a long connection costs no memory."""
_MOST_FAILURES: Final = 200


class CheckedLines:
    """What the lines of a connection are, and which rules they break."""

    def __init__(self) -> None:
        self._connection = 0
        self._first = 1
        self._timeline = RecordingTimeline(is_whole=True)

    @property
    def _next(self) -> int:
        return self._first + len(self._timeline.rows)

    def follow(self, connection: int, kept: Sequence[KeptLine], secrets: Secrets) -> None:
        """Check the lines that were not checked yet."""
        if not kept:
            return
        has_gap = kept[0].number > self._next
        if connection != self._connection or has_gap or len(self._timeline.rows) > _MOST_ROWS:
            self._connection, self._first = connection, kept[0].number
            self._timeline = RecordingTimeline(is_whole=self._first == 1)
        for line in kept[max(0, self._next - kept[0].number) :]:
            # In the place of a line that is not there stands an entry that no rule is about.
            is_there = bool(line.data) or not line.size_bytes
            self._timeline.feed(line.masked(secrets) if is_there else Stderr(line.t, ""))

    def is_bad(self, number: int) -> bool:
        """Whether a line is an error, or breaks a rule."""
        return self._timeline.rows[number - self._first].is_bad

    def document(self, number: int) -> dict[str, Any]:
        """Return what is known about a line, named as in `dragoman inspect --json`."""
        row = row_document(self._timeline.rows[number - self._first])
        found = {name: value for name, value in row.items() if name not in ("n", "t", "dir", "bytes")}
        if row["kind"] == "stderr":
            found["kind"] = "omitted"
        for name in ("request", "answer"):
            if found[name] is not None:
                found[name] += self._first - 1
        found["findings"] = [self._finding(finding) for finding in row["findings"]]
        return found

    def failures(self) -> list[dict[str, Any]]:
        """Return the last findings that the protocol requires to be otherwise; a later line may show an earlier one."""
        found = [finding for finding in self._timeline.findings if finding.is_failure][-_MOST_FAILURES:]
        return [self._finding(finding_document(finding)) for finding in found]

    def _finding(self, finding: dict[str, Any]) -> dict[str, Any]:
        return {**finding, "n": finding["n"] + self._first - 1}
