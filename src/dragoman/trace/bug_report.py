"""What a bug report needs, in one file without private contents: versions, settings, traffic, stderr, the terminal.

Owns what is in it and what is removed. Messages keep their form and lose their texts (`redact.py`); of the conversation
only the kinds and sizes of its blocks are kept; settings lose values that may be secrets; stderr loses known keys, what
looks like a key, and the name of the home folder. The user sees each part before the file is written.
"""

from __future__ import annotations

import io
import os
import platform
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman._version import __version__
from dragoman.text.secrets import Secrets
from dragoman.text.terminal import plain, size
from dragoman.trace.entry import Header
from dragoman.trace.program_versions import versions
from dragoman.trace.violations import PassiveChecker
from dragoman.trace.written import recording_of
from dragoman.view.blocks import DiffPiece, MessageBlock, PlanBlock, ShownTerminal, TextPiece, ToolBlock, TurnBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from dragoman.trace.entry import Frame
    from dragoman.view.blocks import Block

REMOVED: Final = "[removed]"
_STDERR_CHARS: Final = 20_000
_MOST_BLOCKS: Final = 2_000
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|credential|cookie", re.IGNORECASE)
_SECRET_PLACES: Final = frozenset(("env", "headers"))
# Letters and digits without a space, as keys are; words and paths of a log are shorter or have other characters.
_LIKE_A_KEY: Final = re.compile(r"(?<![A-Za-z0-9_/.])(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{20,}")
_AFTER_NAME: Final = re.compile(r"(?i)\b(bearer|basic|token|password|secret|api[-_]?key)(\s*[=:]\s*|\s+)(\S{6,})")
_TERMINAL: Final = (
    *("TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR"),
    *("ACCESSIBLE", "COLORFGBG"),
)
_PRESENT: Final = ("TMUX", "STY", "SSH_CONNECTION", "WSL_DISTRO_NAME", "CI")
_EXTRAS: Final = ("textual", "rich", "prompt_toolkit", "pyte", "httpx", "websockets")


class ReportPart(NamedTuple):
    """One file of a report."""

    name: str
    what: str
    data: bytes


class ReportSource(NamedTuple):
    """What is known of the session that a report is about."""

    session_id: str
    agent: str
    state: str = ""
    frames: Sequence[Frame] = ()
    is_whole: bool = False
    """The frames begin with the connection."""
    started_at: float = 0.0
    stderr: str = ""
    blocks: Sequence[Block] = ()
    settings: Mapping[str, Path] = {}
    """The files of the user's and the project's settings, by whose they are."""


def build_report(source: ReportSource, environment: Mapping[str, str] = os.environ) -> list[ReportPart]:
    """Make the parts of a report, the one that explains it first. Reads the settings."""
    clean = _Cleaner(environment)
    parts = [
        ReportPart("versions.json", "versions of dragoman, Python and the protocol", _json(_all_versions())),
        ReportPart("terminal.json", "what kind of terminal this is", _json(terminal_facts(environment))),
        ReportPart("session.json", "the agent and the state of the session", _json(_session(source, clean))),
        ReportPart("transcript.txt", "the conversation: kinds and sizes, no texts", _transcript(source.blocks)),
    ]
    if source.frames:
        parts.append(ReportPart("recording.jsonl", "messages host <-> agent, contents replaced", _recording(source)))
        parts.append(ReportPart("broken-rules.txt", "rules of the protocol that were broken", _findings(source)))
    if source.stderr.strip():
        text = clean(plain(source.stderr[-_STDERR_CHARS:]))
        parts.append(ReportPart("stderr.txt", "the agent's last error output; read it first", text.encode()))
    for whose, path in source.settings.items():
        data = _settings(path, clean)
        if data:
            parts.append(ReportPart(f"settings-{whose}.json", f"{clean(str(path))} without secrets", data))
    about = "".join(f"{part.name:<24} {part.what}\n" for part in parts)
    head = f"A report of dragoman {__version__}, made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.\n\n{about}"
    return [ReportPart("README.txt", "what is in this file", head.encode()), *parts]


def zip_of(parts: Iterable[ReportPart]) -> bytes:
    """Return the parts as one zip file."""
    from zipfile import ZIP_DEFLATED, ZipFile

    target = io.BytesIO()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for part in parts:
            archive.writestr(f"dragoman-report/{part.name}", part.data)
    return target.getvalue()


def report_name(session_id: str) -> str:
    """Return the usual name of a report."""
    return f"dragoman-report-{''.join(filter(str.isalnum, session_id))[:8] or 'session'}.zip"


def settings_files(folder: str) -> dict[str, Path]:
    """Return the settings that hold in a folder, by whose they are."""
    from pathlib import Path

    from dragoman.settings import find_project
    from dragoman.settings.file import FILE_NAME
    from dragoman.settings.places import config_dir
    from dragoman.settings.project import PROJECT_FOLDER

    return {"user": config_dir() / FILE_NAME, "project": find_project(Path(folder)) / PROJECT_FOLDER / FILE_NAME}


def terminal_facts(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return what kind of terminal a program has, as far as its environment says."""
    facts: dict[str, Any] = {name: environment[name] for name in _TERMINAL if name in environment}
    facts |= {name: True for name in _PRESENT if environment.get(name)}
    try:
        facts["size"] = list(os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1))
    except (OSError, ValueError):
        facts["size"] = None
    return facts


class _Cleaner:
    """The removal of keys and of the home folder's name from text."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._secrets = Secrets(environment)
        self._home = environment.get("HOME", "").rstrip("/")

    def __call__(self, text: str) -> str:
        text = self._secrets.mask(text)
        text = _AFTER_NAME.sub(rf"\1\2{REMOVED}", text)
        text = _LIKE_A_KEY.sub(REMOVED, text)
        return text.replace(self._home, "~") if len(self._home) > 1 else text

    def value(self, value: Any, name: str = "") -> Any:
        """Return a value of the settings without what may be secret."""
        if isinstance(value, dict):
            if name in _SECRET_PLACES:
                return {str(key): REMOVED for key in value}
            return {self(str(key)): self.value(member, str(key)) for key, member in value.items()}
        if isinstance(value, list):
            return [self.value(item, name) for item in value]
        if _SECRET_NAME.search(name) and not isinstance(value, bool):
            return REMOVED
        return self(value) if isinstance(value, str) else value


def _all_versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    found = versions()
    for name in _EXTRAS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "system": platform.platform(), "implementation": platform.python_implementation()}


def _session(source: ReportSource, clean: _Cleaner) -> dict[str, Any]:
    return {
        "agent": clean(source.agent),
        "state": source.state,
        "messages": len(source.frames),
        "begins_with_the_connection": source.is_whole,
        "blocks": len(source.blocks),
    }


def _recording(source: ReportSource) -> bytes:
    header = None
    if source.is_whole:
        started = datetime.fromtimestamp(source.started_at, UTC).isoformat(timespec="milliseconds")
        header = Header(started=started.replace("+00:00", "Z"))
    return recording_of(source.frames, header, redact=True)


def _findings(source: ReportSource) -> bytes:
    checker = PassiveChecker(is_whole=source.is_whole)
    lines = [
        f"line {finding.index}: rule {finding.rule} {finding.level}, {finding.dir}\n"
        for frame in source.frames
        for finding in checker.feed(frame)
        if finding.is_failure or finding.is_warning
    ]
    return ("".join(lines) or "none were found\n").encode()


def _transcript(blocks: Sequence[Block]) -> bytes:
    lines = [_block(block) for block in blocks[-_MOST_BLOCKS:]]
    if len(blocks) > _MOST_BLOCKS:
        lines.insert(0, f"({len(blocks) - _MOST_BLOCKS} earlier blocks are left out)")
    return "".join(f"{line}\n" for line in lines).encode() or b"(empty)\n"


def _block(block: Block) -> str:
    match block:
        case MessageBlock():
            count = sum(len(piece.text) for piece in block.content if isinstance(piece, TextPiece))
            other = sum(not isinstance(piece, TextPiece) for piece in block.content)
            return f"{block.role}: {count} characters{f', {other} other pieces' if other else ''}"
        case ToolBlock():
            words = [f"tool {_word(block.kind)}: {_word(block.status)}", *map(_piece, block.content)]
            words += [] if block.exit_code is None else [f"exit code {block.exit_code}"]
            return ", ".join(words + ([] if block.output is None else [f"output of {size(len(block.output))}"]))
        case PlanBlock():
            return f"plan: {len(block.steps)} steps"
        case TurnBlock():
            return f"-- turn ended: {_word(block.stop_reason or 'without an answer')}"
        case _:
            return f"note: {block.kind}"


def _piece(piece: Any) -> str:
    if isinstance(piece, DiffPiece):
        return f"change +{piece.added} -{piece.removed}"
    if isinstance(piece, ShownTerminal):
        return f"terminal, output of {size(len(piece.output or ''))}"
    return type(piece).__name__


def _word(text: str) -> str:
    """Return a word of the protocol as it is; anything longer may be a text of the agent."""
    return text if re.fullmatch(r"[a-z_ ]{1,30}", text) else REMOVED


def _settings(path: Path, clean: _Cleaner) -> bytes:
    from dragoman.errors import ConfigError
    from dragoman.settings.documents import Document

    try:
        document = Document(path, path.read_text("utf-8"), has_comments=True)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError, ConfigError) as error:  # a report about broken settings is as good as any other
        return f"cannot be read: {type(error).__name__}\n".encode()
    return _json(clean.value(document.value))


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
