"""Front matter of files that are written here, and texts of other programs as templates. Pure."""

from __future__ import annotations

import re
from typing import Final

_SHELL: Final = re.compile(r"!`([^`\n]+)`")
_FILE: Final = re.compile(r"(?<![\w`@/.])@(?=[\w.~/-]*[./])([\w.~/-]*\w)")
_GEMINI_SHELL: Final = re.compile(r"!\{([^{}]*(?:\{\{args\}\}[^{}]*)*)\}")
_GEMINI_FILE: Final = re.compile(r"@\{([^{}]+)\}")
_POSITION: Final = re.compile(r"\$ARGUMENTS\[(\d)\]")
_PLACE: Final = re.compile(r"\$(?:ARGUMENTS\b|[1-9](?!\d))")
_RAN: Final = "it ran `{}` by itself; the model is asked to run it, with permission"
_ADDED: Final = "it added the file {} to the prompt; the model is asked to read it"
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def front_matter(members: dict[str, str], body: str) -> str:
    """Make a Markdown file with members that are each one line; empty ones are left out."""
    lines = [f"{name}: {_quoted(value)}" for name, value in members.items() if value]
    return "\n".join(["---", *lines, "---", body.strip(), ""]) if lines else body.strip() + "\n"


def _quoted(value: str) -> str:
    value = " ".join(value.split())
    # Single quotes have one escape only, and keep colons, `#` and brackets as they are.
    return value if re.fullmatch(r"[\w ,.*()/-]+", value) else "'" + value.replace("'", "''") + "'"


def markdown_template(body: str) -> tuple[str, list[str]]:
    """Return the text of a command of Claude Code, Codex or opencode as a template, and what it loses."""
    lost = [_RAN.format(line) for line in _SHELL.findall(body)]
    body = _SHELL.sub(r"(run `\1` and use its output)", body)
    body = _POSITION.sub(lambda found: f"${min(int(found[1]) + 1, 9)}", body)
    outside = _CODE.sub("", body)
    lost += [_ADDED.format(path) for path in _FILE.findall(outside)]
    pieces, at = [], 0
    for code in _CODE.finditer(body):  # a path in code is not a reference
        pieces += [_with_files(body[at : code.start()]), code[0]]
        at = code.end()
    return "".join((*pieces, _with_files(body[at:]))), lost


def _with_files(text: str) -> str:
    return _FILE.sub(r"`\1` (read this file)", text)


def gemini_template(prompt: str) -> tuple[str, list[str]]:
    """Return the prompt of a command of Gemini CLI as a template, and what it loses."""
    lost = [f"{found[0]} is replaced here by the words after the command" for found in _PLACE.finditer(prompt)]
    lost += [_RAN.format(line) for line in _GEMINI_SHELL.findall(prompt)]
    lost += [_ADDED.format(path) for path in _GEMINI_FILE.findall(prompt)]
    text = _GEMINI_SHELL.sub(r"(run `\1` and use its output)", prompt)
    text = _GEMINI_FILE.sub(r"`\1` (read this file)", text)
    return text.replace("{{args}}", "$ARGUMENTS"), lost


def imported_paths(text: str) -> list[str]:
    """Return the paths that `@path` in instructions names, outside of code."""
    return _FILE.findall(_CODE.sub("", text))
