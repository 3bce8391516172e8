"""The comparison as one HTML page: the table, then of each agent its answer, its changes and the next steps. Pure.

Loaded for a page: a table is written without it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.cli.compare.table import HEADER, row_of
from dragoman.view.changed_files import DiffElements, LinkedChange, figures, file_tree
from dragoman.view.diffs import read_patched_files
from dragoman.view.elements import make
from dragoman.view.html import page_style, whole_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.compare.runs import ComparedRun
    from dragoman.view.elements import Element, ElementChild

_STYLE: Final = Path(__file__).parent / "page.css"


def page_of(prompt: str, project: str, runs: Sequence[ComparedRun]) -> str:
    """Return the whole page."""
    head = make("thead", "", make("tr", "", *(make("th", "", name.capitalize()) for name in HEADER)))
    best = _suggested(runs)
    # The suggested one is first; the others stay in the order in which they were named.
    ordered = sorted(range(len(runs)), key=lambda number: number != best)
    rows = [_row(runs[number], f"agent-{number}") for number in ordered]
    body = [
        make("p", "aside", project),
        make("pre", "prompt-text", prompt),
        make("div", "scroll", make("table", "", head, make("tbody", "", *rows))),
        make("div", "runs", *(_section(runs[number], number, is_first=number == best) for number in ordered)),
    ]
    count = "1 agent" if len(runs) == 1 else f"{len(runs)} agents"
    return whole_page(f"{count}, one prompt", body, page_style(_STYLE.read_text("utf-8")), is_wide=True)


def _suggested(runs: Sequence[ComparedRun]) -> int | None:
    """Choose the run to look at first: one that ended well and changed something, the quickest of those.

    None if there is none, or nothing to choose from. Whether its changes are right is not known here.
    """
    good = [number for number, run in enumerate(runs) if run.exit_code == 0 and run.files]
    return min(good, key=lambda number: runs[number].seconds) if good and len(runs) > 1 else None


def _row(run: ComparedRun, anchor: str) -> Element:
    first, *others = row_of(run)
    cells = [make("td", "number" if text[:1].isdigit() else "", text) for text in others]
    return make("tr", "", make("td", "", make("a", {"href": f"#{anchor}"}, first)), *cells)


def _section(run: ComparedRun, number: int, *, is_first: bool) -> Element:
    badge = [make("span", "badge", "quickest with changes")] if is_first else []
    inner: list[ElementChild] = [make("h3", "", run.name, *badge)]
    if run.error:
        inner.append(make("p", "failed", run.error))
    inner.append(make("pre", "answer", run.text or "(no answer)"))
    inner += _changes(run, number)
    if run.files:
        inner += [make("h4", "", "Go on with this one"), _commands(run.worktree)]
    classes = "run first" if is_first else "run"
    return make("article", {"class": classes, "id": f"agent-{number}"}, *inner)


def _changes(run: ComparedRun, number: int) -> list[Element]:
    files = read_patched_files(run.patch)
    if not files:
        return [make("p", "aside", run.patch[:2_000] or "(no changes)")]
    anchors = [f"agent-{number}-file-{place}" for place in range(len(files))]
    rows = [
        LinkedChange(
            file.piece.path, file.piece.added, file.piece.removed, (anchor,), "new" if file.piece.is_new else file.what
        )
        for file, anchor in zip(files, anchors, strict=True)
    ]
    diffs = DiffElements()
    changes = [diffs.of(file.piece, anchor, file.what) for file, anchor in zip(files, anchors, strict=True)]
    title = make("h4", "", "1 file " if len(files) == 1 else f"{len(files)} files ", figures(run.added, run.removed))
    return [title, file_tree(rows), *changes]


def _commands(worktree: str) -> Element:
    name = shlex.quote(worktree)
    steps = [
        ("See the changes again", f"dragoman worktrees diff {name}"),
        ("Take them into the project", f"dragoman worktrees merge {name}"),
        ("Throw them away", f"dragoman worktrees discard {name} --yes"),
    ]
    return make("ul", "steps", *(make("li", "", what, make("pre", "", make("code", "", line))) for what, line in steps))
