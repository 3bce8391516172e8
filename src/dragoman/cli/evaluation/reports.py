"""`dragoman eval report` and `compare`: results that were written before.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.evaluation.run import show
from dragoman.evaluation.page import comparison_page, page_of
from dragoman.evaluation.results import read_results
from dragoman.evaluation.statistics import compare, rate_of
from dragoman.evaluation.summary import COMPARED, compared_rows, compared_sentences, sentences
from dragoman.text.terminal import plain
from dragoman.workspace.atomic import replace_file

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall


def report_results(call: CliCall) -> int:
    """Show results as a table, and as a page with `--html`. Raises: ConfigError."""
    results = read_results(_place(call.given.words[0]))
    _write_page(call.given.html, page_of(results))
    if call.given.json:
        rate = rate_of(results.runs)
        write_json(
            {
                "passed": rate.passed,
                "counted": rate.counted,
                "share": rate.share,
                "interval": rate.interval,
                "sentences": sentences(results),
            }
        )
    else:
        show(results)
    return exits.OK


def compare_results(call: CliCall) -> int:
    """Compare two results by the runs that both have. Raises: ConfigError."""
    first, second = (read_results(_place(word)) for word in call.given.words)
    comparison = compare(first, second)
    lines = compared_sentences(first, second, comparison)
    _write_page(call.given.html, comparison_page(first, second, comparison))
    if call.given.json:
        write_json(
            {
                "pairs": comparison.pairs,
                "only_first": comparison.only_first,
                "only_second": comparison.only_second,
                "p_value": comparison.p_value,
                "unpaired": comparison.unpaired,
                "sentences": lines,
            }
        )
        return exits.OK
    rows = compared_rows(comparison)
    if rows:
        write_table(COMPARED, rows)
        sys.stdout.write("\n")
    sys.stdout.write("".join(f"{plain(text)}\n" for text in lines))
    return exits.OK


def _place(word: str) -> Path:
    return Path(word).expanduser().absolute()


def _write_page(name: str | None, page: str) -> None:
    if name is None:
        return
    path = Path(name).expanduser().absolute()
    if not path.parent.is_dir() or path.is_dir():
        raise exits.CliError(f"--html {path}: this file cannot be written", hint="name a file in a folder that exists")
    replace_file(str(path), page.encode("utf-8", "replace"))
    write_note(f"the page is {path}")
