"""Claude's own session files: which there are, where one is, and the conversation in it.

Owns reading `~/.claude/projects`: a folder for each project, a file of JSON lines for each session. Nothing is written
there; a session is deleted with its file.

A file is a tree: a line names the one before it, and a conversation that was taken back to an earlier point has a
second branch. What is shown is the branch of the last line. Answers to calls that ran side by side hang on their calls,
so they belong to it too.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.adapters.claude.events import ClaudeEvents, command_output
from dragoman.adapters.claude.prompt_content import parts_of_content
from dragoman.adapters.values import WrappedSessionInfo
from dragoman.text.terminal import sentence
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import ERROR, Reducer
from dragoman.uistream.messages import TextPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAME: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEAD_BYTES: Final = 128 << 10  # of a file are read for its title: prompts are long, attachments longer
_TAIL_BYTES: Final = 32 << 10
_FOLDER_LETTERS: Final = 200  # a longer name of a folder ends with a hash
_TITLE_LETTERS: Final = 80
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>.*?<command-args>(.*?)</command-args>", re.DOTALL)
_INTERRUPTED: Final = "[Request interrupted by user"
_NOT_TYPED: Final = ("<local-command-caveat>", "<task-notification>", "<system-reminder>", "Caveat: ")


class _Attachment(Struct):
    """What Claude added to a conversation; a message that the user sent in the middle of a turn is one, too."""

    type: str = ""
    prompt: msgspec.Raw = msgspec.Raw(b"null")


class _Line(Struct, rename="camel"):
    """The members of a line that decide whether it is shown."""

    type: str = ""
    subtype: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    source: str | None = msgspec.field(default=None, name="sourceToolAssistantUUID")
    """The call that a result belongs to."""
    is_sidechain: bool = False
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    message: msgspec.Raw = msgspec.Raw(b"null")
    content: msgspec.Raw = msgspec.Raw(b"null")
    tool_use_result: msgspec.Raw = msgspec.Raw(b"null")
    tool_denial_kind: str | None = None
    attachment: _Attachment | None = None
    compact_metadata: msgspec.Raw = msgspec.Raw(b"null")


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class ClaudeTranscripts:
    """The files of all sessions.

    Args:
        env: variables that the program is started with; they may name another folder.
    """

    def __init__(self, env: Mapping[str, str | None]) -> None:
        variables = {**os.environ, **env}
        configured = variables.get("CLAUDE_CONFIG_DIR")
        home = variables.get("HOME") or os.path.expanduser("~")
        self._projects = (Path(configured) if configured else Path(home) / ".claude") / "projects"

    def find(self, session_id: str, cwd: str) -> Path | None:
        """Return the file of a session that was in this folder."""
        paths = [folder / f"{session_id}.jsonl" for folder in self._folders(cwd)] if is_session_id(session_id) else []
        return next((path for path in paths if path.is_file()), None)

    def folder_of(self, session_id: str) -> str | None:
        """Return the folder that a session belongs to, whichever that is."""
        for path in self._all(session_id):
            if (info := read_info(path)) is not None:
                return info.cwd
        return None

    def list(self, cwd: str | None) -> Sequence[WrappedSessionInfo]:
        """Return the sessions of one folder, or all, the last changed first."""
        folders = (
            self._folders(cwd) if cwd is not None else [entry for entry in _entries(self._projects) if entry.is_dir()]
        )
        files = [path for folder in folders for path in _entries(folder) if is_session_id(path.stem)]
        dated = sorted(((_modified(path), path) for path in files if path.suffix == ".jsonl"), reverse=True)
        found = [info for _, path in dated if (info := read_info(path)) is not None]
        wanted = None if cwd is None else {cwd, os.path.realpath(cwd)}
        return [info for info in found if wanted is None or info.cwd in wanted]

    def delete(self, session_id: str) -> None:
        """Delete the files of a session. One that does not exist is not an error."""
        for path in self._all(session_id):
            with suppress(OSError):
                path.unlink()
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)

    def _all(self, session_id: str) -> Sequence[Path]:
        return sorted(self._projects.glob(f"*/{session_id}.jsonl")) if is_session_id(session_id) else ()

    def _folders(self, cwd: str) -> Sequence[Path]:
        """Return the folders of Claude that hold sessions of a project."""
        names = dict.fromkeys(_folder_name(place) for place in (cwd, os.path.realpath(cwd)))
        found = [self._projects / name for name in names if len(name) <= _FOLDER_LETTERS]
        for name in names:
            if len(name) > _FOLDER_LETTERS:
                found += [entry for entry in _entries(self._projects) if entry.name.startswith(name[:_FOLDER_LETTERS])]
        return found


def _folder_name(place: str) -> str:
    """Return the name that Claude gives to the folder of a project. It counts letters as JavaScript does, in UTF-16."""
    return re.sub(r"[^A-Za-z0-9]", lambda found: "-" if found[0] <= "\uffff" else "--", place)


def is_session_id(session_id: str) -> bool:
    """Return whether this can be the id of one of Claude's sessions."""
    return _NAME.fullmatch(session_id) is not None


def read_history(path: Path) -> list[UIMessage]:
    """Return the conversation in a file. Lines that cannot be read are left out. Raises: OSError."""
    with path.open("rb") as file:
        lines = [line for raw in file if (line := _readable(raw)) is not None and line.uuid is not None]
    return list(_messages(_branch([line for line in lines if not line.is_sidechain])))


# Finding files


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def read_info(path: Path) -> WrappedSessionInfo | None:
    """Return what is listed of a session; None if nothing was written in it."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read()
    except OSError:
        return None
    cwd, first, title = "", "", ""
    for raw in head.split(b"\n"):
        line = _object(raw)
        cwd = cwd or str(line.get("cwd") or "")
        if not first and line.get("type") == "user" and not line.get("isMeta") and not line.get("isSidechain"):
            message = line.get("message")
            first = _typed(message.get("content") if isinstance(message, dict) else None)
    for raw in tail.split(b"\n"):
        line = _object(raw)
        for name in ("customTitle", "aiTitle", "summary"):
            if isinstance(line.get(name), str) and line.get("type") in ("custom-title", "ai-title", "summary"):
                title = line[name]
    if not cwd or not (title or first):
        return None
    shown = sentence(title or first)[:_TITLE_LETTERS].strip()
    updated = datetime.fromtimestamp(_modified(path), UTC).isoformat().replace("+00:00", "Z")
    return WrappedSessionInfo(path.stem, cwd, shown, updated)


def _object(raw: bytes) -> dict[str, Any]:
    if not raw.startswith(b"{"):
        return {}
    try:
        return _decode_object(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}  # cut off at the border of what was read


def _typed(content: Any) -> str:
    """Return what the user wrote, as one text; empty for what Claude put in the user's place."""
    texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        texts = [str(block.get("text")) for block in content if isinstance(block, dict) and block.get("type") == "text"]
    text = "\n".join(texts)
    if found := _COMMAND.search(text):
        return f"{found[1]} {found[2]}".strip()
    is_typed = not text.lstrip().startswith(_NOT_TYPED) and not text.startswith(_INTERRUPTED)
    return text if is_typed and not command_output(text) else ""


# The conversation


def _readable(raw: bytes) -> _Line | None:
    try:
        return _decode_line(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _branch(lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines of the branch that the last line is on, in the order of the file."""
    places = {line.uuid: place for place, line in enumerate(lines)}
    spoken = [place for place, line in enumerate(lines) if line.type in ("user", "assistant")]
    if not spoken:
        return []
    chain: set[str | None] = set()
    at: int | None = spoken[-1]
    while at is not None and lines[at].uuid not in chain:
        chain.add(lines[at].uuid)
        before = lines[at].parent_uuid or lines[at].logical_parent_uuid
        # A line before it that could not be read does not end the conversation.
        at = None if before is None else places.get(before, at - 1 if at > 0 else None)
    answers = {_message_id(line) for line in lines if line.uuid in chain and line.type == "assistant"}
    kept: set[str | None] = set()
    for line in lines:
        is_answer = line.type == "assistant" and _message_id(line) in answers
        is_result = line.type == "user" and line.parent_uuid in kept and line.source in kept
        if line.uuid in chain or is_answer or is_result:
            kept.add(line.uuid)
    return [line for line in lines if line.uuid in kept]


def _message_id(line: _Line) -> str:
    message = _value(line.message)
    return str(message.get("id")) if isinstance(message, dict) else ""


def _messages(lines: Sequence[_Line]) -> Iterator[UIMessage]:
    """Yield the messages of a conversation. An answer is everything between two prompts."""
    events = ClaudeEvents(read=lambda path: None)
    reducer: Reducer | None = None
    for line in lines:
        if line.type == "user" and (prompt := _prompt(line)) is not None:
            yield from _finished(reducer)
            reducer = None
            yield prompt
            continue
        if reducer is None:
            reducer = Reducer(UIMessage(f"claude_{line.uuid}", "assistant", []), is_tolerant=True)
        if line.attachment is not None:
            for added in _added(line):
                reducer.feed(added)
            continue
        if line.is_api_error_message:
            reducer.message.metadata[ERROR] = _text(_value(line.message))
        for chunk in events.feed(_as_message(line)):
            reducer.feed(chunk)
    yield from _finished(reducer)


def _added(line: _Line) -> Iterator[c.Chunk]:
    """Yield the text that the user added to a running turn."""
    if line.attachment is not None and line.attachment.type == "queued_command":
        text = _typed(_value(line.attachment.prompt))
        if text and line.uuid is not None:
            yield c.SteeringMessage(line.uuid, [{"type": "text", "text": text}])


def _finished(reducer: Reducer | None) -> Iterator[UIMessage]:
    if reducer is None:
        return
    reducer.close()
    if reducer.message.parts or ERROR in reducer.message.metadata:
        yield reducer.message


def _prompt(line: _Line) -> UIMessage | None:
    """Return the prompt that a line is, if it is one."""
    message = _value(line.message)
    content = message.get("content") if isinstance(message, dict) else None
    if line.is_meta or line.is_compact_summary or line.uuid is None or _has_results(content):
        return None
    typed = _typed(content)
    parts = parts_of_content(content)
    if isinstance(content, str):
        return UIMessage(line.uuid, "user", [TextPart(typed)]) if typed else None
    is_shown = bool(typed) or any(not isinstance(part, TextPart) for part in parts)
    return UIMessage(line.uuid, "user", parts) if is_shown else None


def _has_results(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def _as_message(line: _Line) -> dict[str, Any]:
    """Return a stored line as the message that the program sent."""
    made: dict[str, Any] = {"type": line.type, "subtype": line.subtype, "message": _value(line.message)}
    if line.type == "user":
        made["tool_use_result"] = _value(line.tool_use_result)
        if line.tool_denial_kind is not None:
            made["tool_result_meta"] = [
                {"id": block.get("tool_use_id"), "non_execution_kind": "user-rejected"}
                for block in (made["message"] or {}).get("content") or ()
                if isinstance(block, dict)
            ]
    elif line.type == "assistant" and line.is_api_error_message:
        made["is_api_error_message"] = True
    elif line.subtype == "local_command":
        made = {"type": "user", "message": {"content": _value(line.content)}}
    elif line.subtype == "compact_boundary":
        made["compact_metadata"] = _value(line.compact_metadata)
    return made


def _value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


def _text(message: Any) -> str:
    return _typed(message.get("content")) if isinstance(message, dict) else ""
