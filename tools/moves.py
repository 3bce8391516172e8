"""Rewrites the names of modules that have moved: `python -m tools.moves` changes the files, `--check` only lists them.

Imports are found in the syntax tree, so a relative import or an alias is read as Python reads it. Strings are rewritten
if they are the name of a module that has moved, or begin with one: lists of modules to load, and places to patch in
tests. Pages and other text are not read. A second run changes nothing; sorting imports is left to ruff.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS: Final = ("src", "tests", "tools", "benchmarks", "examples")
MOVED: Final = {
    "dragoman.adapters.codex.processes": "dragoman.adapters.codex.turn",
    "dragoman.agent.capabilities": "dragoman.agent.connection",
    "dragoman.builtin.client_rules": "dragoman.builtin.viewer",
    "dragoman.builtin.forms": "dragoman.builtin.access",
    "dragoman.builtin.hooks.calls": "dragoman.builtin.hooks.open_hooks",
    "dragoman.builtin.mcp.prompts": "dragoman.builtin.mcp.servers",
    "dragoman.builtin.model_access": "dragoman.builtin.agent",
    "dragoman.builtin.models.wire_forms.chat_servers": "dragoman.builtin.models.wire_forms.chat",
    "dragoman.builtin.models.wire_forms.gemini_schema": "dragoman.builtin.models.wire_forms.gemini",
    "dragoman.builtin.models.wire_forms.think_tags": "dragoman.builtin.models.wire_forms.chat_stream",
    "dragoman.builtin.modes": "dragoman.policy.modes",
    "dragoman.builtin.previews": "dragoman.builtin.loop",
    "dragoman.builtin.repetition": "dragoman.builtin.loop",
    "dragoman.builtin.request_errors": "dragoman.builtin.agent",
    "dragoman.builtin.tools.did_you_mean": "dragoman.builtin.tools.edit",
    "dragoman.builtin.tools.indentation": "dragoman.builtin.tools.edit_match",
    "dragoman.builtin.tools.notebook": "dragoman.builtin.tools.read",
    "dragoman.builtin.web.dns": "dragoman.builtin.web.fetch",
    "dragoman.builtin.web.public_ip": "dragoman.builtin.web.fetch",
    "dragoman.cli.exec.changes": "dragoman.runs.changes",
    "dragoman.cli.exec.hints": "dragoman.runs.hints",
    "dragoman.cli.exec.ledger": "dragoman.runs.ledger",
    "dragoman.cli.exec.output": "dragoman.cli.exec.view",
    "dragoman.cli.exec.patch": "dragoman.runs.patch",
    "dragoman.cli.exec.result": "dragoman.runs.result",
    "dragoman.cli.exec.sandbox": "dragoman.runs.sandbox",
    "dragoman.cli.exec.settings": "dragoman.runs.opening",
    "dragoman.cli.exec.tool_watch": "dragoman.runs.tool_calls",
    "dragoman.cli.exec.tree_result": "dragoman.runs.result",
    "dragoman.cli.prompt.reported_exit": "dragoman.state.reported_exit",
    "dragoman.conformance.agent.plain_turn": "dragoman.conformance.agent.run",
    "dragoman.evaluation.fields": "dragoman.evaluation.task",
    "dragoman.host.terms": "dragoman.runs.terms",
    "dragoman.scripting.changes": "dragoman.runs.changes",
    "dragoman.scripting.tools.langchain_tool": "dragoman.scripting.tools.agent_tool",
    "dragoman.scripting.tools.pydantic_tool": "dragoman.scripting.tools.agent_tool",
    "dragoman.settings.keyring": "dragoman.settings.credentials",
    "dragoman.snapshots.coverage": "dragoman.snapshots.scan",
    "dragoman.state.growing_list": "dragoman.state.version2.steps",
    "dragoman.trace.checks.missing": "dragoman.trace.violations",
    "dragoman.trace.checks.version2.checks": "dragoman.trace.checks.version2",
    "dragoman.trace.checks.version2.sessions": "dragoman.trace.checks.version2",
    "dragoman.transports.remote.asgi_stream": "dragoman.transports.remote.asgi",
    "dragoman.transports.remote.listener": "dragoman.transports.remote.server",
    "dragoman.transports.remote.page_writer": "dragoman.transports.remote.stream_writer",
    "dragoman.transports.remote.upgrade": "dragoman.transports.remote.http_socket",
    "dragoman.tui.draft_keeper": "dragoman.tui.drafts",
    "dragoman.tui.inline.live": "dragoman.tui.inline.terminal",
    "dragoman.tui.lines.prompts": "dragoman.tui.lines.client",
    "dragoman.tui.lines.reading": "dragoman.tui.lines.command_functions",
    "dragoman.tui.lines.resuming": "dragoman.tui.lines.client",
    "dragoman.tui.lines.sessions": "dragoman.tui.lines.command_functions",
    "dragoman.tui.lines.values": "dragoman.tui.lines.command_functions",
    "dragoman.tui.lines.waiting": "dragoman.tui.lines.command_functions",
    "dragoman.tui.screen.columns": "dragoman.tui.screen.frame",
    "dragoman.tui.screen.conversation.pictures.cells": "dragoman.tui.screen.conversation.pictures.shown",
    "dragoman.tui.screen.conversation.pictures.choice": "dragoman.tui.screen.conversation.pictures.shown",
    "dragoman.tui.screen.farewell": "dragoman.tui.screen.start",
    "dragoman.tui.screen.hangup": "dragoman.tui.screen.start",
    "dragoman.tui.screen.input.editing": "dragoman.tui.screen.changes.review",
    "dragoman.tui.screen.input.steer": "dragoman.tui.screen.input.queue",
    "dragoman.tui.screen.output": "dragoman.tui.screen.start",
    "dragoman.tui.screen.questions.action_card": "dragoman.tui.screen.questions.cards",
    "dragoman.tui.screen.sessions.known": "dragoman.tui.screen.sessions.surroundings",
    "dragoman.tui.screen.sessions.notify": "dragoman.tui.screen.sessions.surroundings",
    "dragoman.tui.start.agents_here": "dragoman.tui.start.machine_facts",
    "dragoman.tui.start.git_branch": "dragoman.tui.screen.sessions.surroundings",
    "dragoman.tui.start.start_checks": "dragoman.tui.start.machine_facts",
    "dragoman.uistream.compactions": "dragoman.uistream.updates",
}
"""Where each module was, and where it is."""


class Edit(NamedTuple):
    """A piece of one line that is replaced; columns count bytes, as the syntax tree does."""

    line: int
    start: int
    end: int
    text: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.moves", description="Rewrite names of moved modules.")
    parser.add_argument("--check", action="store_true", help="list the files that would change")
    is_check = parser.parse_args().check
    changed = [path for path in sources(ROOT) if rewrite_file(path, MOVED, writes=not is_check)]
    for path in changed:
        print(path.relative_to(ROOT))
    return int(is_check and bool(changed))


def sources(root: Path) -> list[Path]:
    """Return the Python files of the project except this one, whose table has the old names."""
    found = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py")))
    return [path for path in found if path != Path(__file__)]


def rewrite_file(path: Path, moved: dict[str, str], *, writes: bool = True) -> bool:
    """Rewrite one file; return whether it differs."""
    before = path.read_text()
    after = rewrite(before, moved)
    if writes and after != before:
        path.write_text(after)
    return after != before


def rewrite(source: str, moved: dict[str, str]) -> str:
    """Return a source text with the new names."""
    if not may_name(source, moved):  # most files: parsing them all takes seconds
        return source
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    # From the end, so that columns before an edit stay valid.
    for edit in sorted(set(edits(source, lines, moved)), reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.start] + edit.text.encode() + line[edit.end :]
    return b"".join(lines).decode()


def may_name(source: str, moved: dict[str, str]) -> bool:
    """Return whether a text can name a module that has moved: whole, from its package, or by a relative import."""
    if "from ." in source:
        return True
    for old in moved:
        package, _, name = old.rpartition(".")
        if old in source or (f"from {package} import" in source and name in source):
            return True
    return False


def edits(source: str, lines: list[bytes], moved: dict[str, str]) -> Iterator[Edit]:
    """Yield what has to change."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            new = moved_name(node.module, moved)
            if new is not None:
                yield _replacement(lines, node.lineno, node.col_offset, node.module, new)
            else:
                yield from _package_import(node, lines, moved)
        elif isinstance(node, ast.alias):
            new = moved_name(node.name, moved)
            if new is not None:
                yield _replacement(lines, node.lineno, node.col_offset, node.name, new)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            new = moved_name(node.value, moved)
            if new is not None and node.value.encode() in lines[node.lineno - 1]:
                yield _replacement(lines, node.lineno, node.col_offset, node.value, new)


def _package_import(node: ast.ImportFrom, lines: list[bytes], moved: dict[str, str]) -> Iterator[Edit]:
    """`from dragoman.cli.exec import result as results`; the new module keeps the name that the file uses.

    Raises:
        ValueError: it imports other names as well, so it has to be split by hand.
    """
    new = [moved_name(f"{node.module}.{alias.name}", moved) for alias in node.names]
    if not any(new):
        return
    if len(new) > 1 or new[0] is None or node.module is None:
        raise ValueError(f"line {node.lineno}: import {node.names[0].name} by a statement of its own")
    package, _, name = new[0].rpartition(".")
    alias = node.names[0]
    yield _replacement(lines, node.lineno, node.col_offset, node.module, package)
    shown = alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"
    used = alias.asname or alias.name
    yield _replacement(lines, alias.lineno, alias.col_offset, shown, name if used == name else f"{name} as {used}")


def moved_name(name: str, moved: dict[str, str]) -> str | None:
    """Return the new name of a module, or of something in it; None if it has not moved."""
    for old, new in moved.items():
        if name == old or name.startswith(f"{old}."):
            return new + name[len(old) :]
    return None


def _replacement(lines: list[bytes], line: int, column: int, old: str, new: str) -> Edit:
    start = lines[line - 1].index(old.encode(), column)
    return Edit(line, start, start + len(old.encode()), new)


if __name__ == "__main__":
    sys.exit(main())
