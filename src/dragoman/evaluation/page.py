"""Results as one HTML page, without scripts and without anything from elsewhere. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from dragoman.evaluation.summary import COMPARED, HEADER, compared_rows, compared_sentences, rows_of, sentences
from dragoman.text.terminal import duration
from dragoman.view.elements import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.evaluation.results import EvalResults, EvalRun, Measured
    from dragoman.evaluation.statistics import PairedResults

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #cf222e; --other: #9a6700; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { padding: .3rem .8rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.notice { border: 2px solid var(--other); border-radius: .5rem; padding: .5rem 1rem; }
.passed { color: var(--good); } .failed, .error, .broken { color: var(--bad); }
.skipped, .interrupted { color: var(--other); }
details { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; margin: .5rem 0; }
summary { cursor: pointer; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { font-weight: bold; } dd { margin: 0; }
"""
_UNKNOWN: Final = "unknown"


def page_of(results: EvalResults) -> str:
    """Make the report of one evaluation."""
    notices = "".join(f"<p class='notice'>{_safe(text)}</p>" for text in sentences(results))
    about = _pairs(
        {
            "agent": results.agent or " ".join(results.command) or "the default agent",
            "version": results.agent_version,
            "model": results.model,
            "started": results.started,
            "time": duration(results.seconds),
            "dragoman": results.dragoman,
        }
    )
    table = _table(HEADER, [row.cells() for row in rows_of(results)])
    return _page(results.title, f"{about}{notices}{table}<h2>Runs</h2>{''.join(map(_run, results.runs))}")


def comparison_page(first: EvalResults, second: EvalResults, comparison: PairedResults) -> str:
    """Make the comparison of two evaluations."""
    notices = "".join(f"<p class='notice'>{_safe(text)}</p>" for text in compared_sentences(first, second, comparison))
    rows = compared_rows(comparison)
    table = _table(COMPARED, rows) if rows else "<p>No paired run differs.</p>"
    return _page("Two evaluations, paired by task", f"{notices}<h2>What differs</h2>{table}")


def _page(title: str, body: str) -> str:
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<meta name='viewport' content='width=device-width'><title>{_safe(title)}</title>"
        f"<style>{_STYLE}</style></head>"
        f"<body><h1>{_safe(title)}</h1>{body}</body></html>\n"
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_safe(name.capitalize())}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return f"<td class='number'>{_safe(text)}</td>" if text[:1].isdigit() else f"<td>{_safe(text)}</td>"


def _run(run: EvalRun) -> str:
    checks = [(check.name, f"{check.score:.0%}", check.detail) for check in run.checks]
    parts = [_table(("CHECK", "SCORE", "DETAIL"), checks) if checks else ""]
    parts += [f"<p>{_safe(reason)}</p>" for reason in run.reasons]
    if run.facts is not None:
        parts.append(_facts(run.facts))
    if run.recording:
        parts.append(f"<p>Recording: {_safe(run.recording)} (dragoman inspect shows it)</p>")
    if run.answer:
        parts.append(f"<pre>{_safe(run.answer)}</pre>")
    title = f"{_safe(run.task)} {run.number}: <span class='{run.outcome}'>{run.outcome}</span>"
    return f"<details><summary>{title}</summary>{''.join(parts)}</details>"


def _facts(facts: Measured) -> str:
    tokens = facts.tokens
    tools = "; ".join(
        f"{kind}: {count.completed} completed, {count.failed} failed, {count.open} open"
        for kind, count in facts.tools.items()
    )
    parts = ("input", "output", "thought", "cached_read", "cached_write", "total")
    violations = facts.protocol_violations
    return _pairs(
        {
            "stop reason": facts.stop_reason,
            "prompts": facts.turns,
            "model calls": facts.model_calls,
            "tool calls": tools or "none",
            "edits that failed": facts.edits_failed,
            "tokens": None
            if tokens is None
            else ", ".join(f"{part} {_or_unknown(getattr(tokens, part))}" for part in parts),
            "cost": None if facts.cost is None else f"{facts.cost:.4g} {facts.currency or ''}",
            "time": duration(facts.seconds),
            "CPU time with the client": None if facts.cpu_seconds is None else duration(facts.cpu_seconds),
            "first chunk after": None if facts.first_chunk_seconds is None else duration(facts.first_chunk_seconds),
            "permissions": f"{facts.permissions_asked} asked, {facts.permissions_allowed} allowed, "
            f"{facts.permissions_refused} refused",
            "violations of rules": facts.rule_violations,
            "violations of the protocol": None
            if violations is None
            else "; ".join(f"rule {violation.rule}: {violation.message}" for violation in violations) or "none",
            "files changed": ", ".join(facts.files_changed) or "none",
            "files outside": ", ".join(facts.files_outside) or "none",
            "the secret was seen": None if facts.is_canary_seen is None else ("yes" if facts.is_canary_seen else "no"),
            "requests received": ", ".join(facts.requests_received) or "none",
            "refused by the sandbox": facts.sandbox_refusals,
            "processes left": ", ".join(facts.processes_left) or "none",
        }
    )


def _pairs(values: dict[str, str | int | float | None]) -> str:
    pieces = [f"<dt>{_safe(name)}</dt><dd>{_safe(_or_unknown(value))}</dd>" for name, value in values.items()]
    return f"<dl>{''.join(pieces)}</dl>"


def _or_unknown(value: str | int | float | None) -> str:
    return _UNKNOWN if value is None or value == "" else str(value)


def _safe(text: str) -> str:
    return escape(shown(text))
