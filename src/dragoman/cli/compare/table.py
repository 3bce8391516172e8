"""The comparison as a table, a row for each agent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import duration, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.compare.runs import ComparedRun

HEADER: Final = ("AGENT", "RESULT", "TIME", "CALLS", "TOKENS", "COST", "FILES", "LINES", "WORKTREE")


def row_of(run: ComparedRun) -> tuple[str, ...]:
    """Return the cells of one agent."""
    return (
        f"{run.name} {run.version}" if run.version else run.name,
        "done" if run.exit_code == 0 else f"exit code {run.exit_code}",
        duration(run.seconds),
        str(run.tool_calls),
        _tokens(run),
        "-" if run.cost is None else f"{run.cost:.4g} {run.currency or ''}".rstrip(),
        str(len(run.files)),
        f"+{run.added} -{run.removed}",
        run.worktree,
    )


def suggested(runs: Sequence[ComparedRun]) -> int | None:
    """Choose the run to look at first: one that ended well and changed something, the quickest of those.

    None if there is none. Whether its changes are right is not known here.
    """
    good = [number for number, run in enumerate(runs) if run.exit_code == 0 and run.files]
    return min(good, key=lambda number: runs[number].seconds, default=None)


def _tokens(run: ComparedRun) -> str:
    if run.input_tokens is not None or run.output_tokens is not None:
        return f"{size(run.input_tokens or 0)} in, {size(run.output_tokens or 0)} out"
    return "-" if run.total_tokens is None else size(run.total_tokens)
