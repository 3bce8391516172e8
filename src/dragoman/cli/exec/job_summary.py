"""The job summary of a run for GitHub Actions, in Markdown: facts first, the agent's answer as a quotation.

Text of the agent is either in a code span, with nothing in it that ends the span, or quoted line by line, so it cannot
look like a part of the facts. Pure.

Loaded in GitHub Actions only, at the end of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.secrets import known_keys
from dragoman.text.terminal import duration, plain, size
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.runs.result import RunResult, ToolCall

_MOST_CALLS: Final = 50
_MOST_FILES: Final = 100
_MOST_TEXT: Final = 100_000  # characters; a summary may have 1 MiB
_WIDTH: Final = 160


def job_summary(result: RunResult, model: str | None = None) -> str:
    """Return the summary as Markdown."""
    agent = result.agent
    name = "agent" if agent is None else agent.title or agent.name or " ".join(agent.command[:1]) or "agent"
    lines = [f"### dragoman exec: {_state(result)}", ""]
    if result.error is not None:
        lines += [f"**{_text(result.error.kind)}**: {_text(result.error.message)}", ""]
        if result.error.hint:
            lines += [f"Hint: {_text(result.error.hint)}", ""]
    lines += _table(("", ""), [*_facts(result, name, model)])
    lines += _files(result)
    lines += _permissions(result)
    if result.tool_calls:
        rows = [(_mark(call), _code(call.kind), _code(_about(call))) for call in result.tool_calls[:_MOST_CALLS]]
        lines += _details(f"{len(result.tool_calls)} tool calls", _table(("", "kind", "what"), rows))
    if result.text.strip():
        lines += ["#### Answer", "", *_quotation(result.text), ""]
    return "\n".join(lines) + "\n"


def _state(result: RunResult) -> str:
    if result.exit_code:
        return f"❌ exit code {result.exit_code}"
    refused = sum(made.action != "allow" for made in result.permissions) + len(result.violations) + len(result.unjudged)
    return f"⚠️ done, {refused} not permitted" if refused else "✅ done"


def _facts(result: RunResult, name: str, model: str | None) -> Iterable[tuple[str, str]]:
    version = "" if result.agent is None or result.agent.version is None else f" {result.agent.version}"
    yield "agent", _code(f"{name}{version}")
    if model:
        yield "model", _code(model)
    yield "time", duration(result.duration_ms / 1000)
    if result.stop_reason:
        yield "stop reason", _code(result.stop_reason)
    usage = result.usage
    if usage is not None and usage.total_tokens:
        yield "tokens", f"{size(usage.input_tokens or 0)} in, {size(usage.output_tokens or 0)} out"
    if usage is not None and usage.cost is not None and usage.cost.amount:
        yield "cost", _code(f"{usage.cost.amount:.4g} {usage.cost.currency}")
    if result.session_id:
        yield "session", _code(result.session_id)
    if result.scripted:
        yield "scripted", "a script was played; no model was called"


def _files(result: RunResult) -> list[str]:
    if not result.files_changed:
        return []
    rows = [(changed.change, _code(changed.path)) for changed in result.files_changed[:_MOST_FILES]]
    return ["#### Changed files", "", *_table(("change", "file"), rows)]


def _permissions(result: RunResult) -> list[str]:
    refused = [made for made in result.permissions if made.action != "allow"]
    rows: list[tuple[str, ...]] = []
    for made in refused[:_MOST_CALLS]:
        what = made.command or ", ".join(made.paths) or made.title
        rows.append((made.action, _code(made.kind), _code(what), _text(made.decided_by)))
    rows += [
        ("violation", _code(violation.kind), _code(violation.title), _text(violation.decided_by))
        for violation in result.violations
    ]
    rows += [("unjudged", _code(left.kind), _code(left.title), _text(left.decided_by)) for left in result.unjudged]
    return ["#### Not permitted", "", *_table(("", "kind", "what", "decided by"), rows)] if rows else []


def _mark(call: ToolCall) -> str:
    if call.exit_code:
        return f"✗ exit {call.exit_code}"
    return {"completed": "✓", "failed": "✗"}.get(call.status, "·")


def _about(call: ToolCall) -> str:
    return call.command or call.title or ", ".join(call.paths) or call.id


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _details(title: str, lines: list[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "</details>", ""]


def _quotation(text: str) -> list[str]:
    shown = plain(text)
    if len(shown) > _MOST_TEXT:
        shown = f"{shown[:_MOST_TEXT]}\n\n… {len(shown) - _MOST_TEXT} more characters"
    return [f"> {line}".rstrip() for line in shown.strip("\n").split("\n")]


def _text(text: str) -> str:
    """Return text of any origin for a cell or a sentence: one line in which no character means anything."""
    shown = label(known_keys.mask(text), 500, "")
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]()#+-.!|~$@" else letter for letter in shown).replace(
        "<", "&lt;"
    )


def _code(text: str) -> str:
    """Return text as a code span of one line; a pipe would end the cell, and a backtick the span."""
    shown = label(known_keys.mask(text), _WIDTH, "(nothing)").replace("`", "'").replace("|", "\\|")
    return f"`{shown}`"
