"""Paths of the editor's machine and of the host's machine, turned into each other in messages. Pure.

Only members that the protocol calls paths are changed: working folders, `file://` URIs, the paths of diffs and
locations, the paths of `fs/*` and the folder of a terminal. Text is never changed.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Change = Callable[[str], str]

_FILE: Final = "file://"
_SESSION: Final = frozenset(("session/new", "session/load", "session/resume", "session/fork", "session/list"))
_FILES: Final = frozenset(("fs/read_text_file", "fs/write_text_file"))
_BLOCKS: Final = frozenset(("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"))
_TOOLS: Final = frozenset(("tool_call", "tool_call_update"))


class PathMap:
    """Pairs of folders; the longest one that fits is used."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = [(_clean(local), _clean(remote)) for local, remote in pairs]

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def to_remote(self, path: str) -> str:
        """Return a path of the editor's machine, as the host has it; unchanged if no pair fits."""
        return _mapped(path, self._pairs)

    def to_local(self, path: str) -> str:
        """Return a path of the host's machine, as the editor has it."""
        return _mapped(path, [(remote, local) for local, remote in self._pairs])

    # Messages

    def request_to_remote(self, method: str, params: Any) -> Any:
        """Convert the parameters of a request or notification of the editor."""
        if not self._pairs or not isinstance(params, dict):
            return params
        if method in _SESSION:
            return _folders(params, self.to_remote)
        if method == "session/prompt" and isinstance(params.get("prompt"), list):
            return {**params, "prompt": [_block(block, self.to_remote) for block in params["prompt"]]}
        return params

    def result_to_local(self, method: str, result: Any) -> Any:
        """Convert the host's answer to a request of the editor."""
        if self._pairs and method == "session/list" and isinstance(result, dict):
            sessions = result.get("sessions")
            if isinstance(sessions, list):
                return {**result, "sessions": [_folders(session, self.to_local) for session in sessions]}
        return result

    def request_to_local(self, method: str, params: Any) -> Any:
        """Convert the parameters of a request or notification of the host."""
        if not self._pairs or not isinstance(params, dict):
            return params
        if method == "session/update":
            return {**params, "update": _update(params.get("update"), self.to_local)}
        if method == "session/request_permission":
            return {**params, "toolCall": _tool(params.get("toolCall"), self.to_local)}
        if method in _FILES:
            return _member(params, "path", self.to_local)
        return _member(params, "cwd", self.to_local) if method == "terminal/create" else params


def read_map(text: str) -> tuple[str, str]:
    """Read two folders from `LOCAL=REMOTE`.

    Raises:
        ConfigError: it is not that.
    """
    local, separator, remote = text.partition("=")
    if not separator or not os.path.isabs(local) or not os.path.isabs(remote):
        raise ConfigError(f"{text!r} does not name two folders; write it like /home/ada/project=/srv/project")
    return local, remote


def _clean(path: str) -> str:
    return os.path.normpath(path)


def _mapped(path: str, pairs: list[tuple[str, str]]) -> str:
    for one, other in sorted(pairs, key=lambda pair: -len(pair[0])):
        if path == one or path.rstrip("/") == one:
            return other
        if one == "/" and path.startswith("/"):
            return other.rstrip("/") + path
        if path.startswith(f"{one}/"):
            return other.rstrip("/") + path[len(one) :]
    return path


def _member(params: Any, name: str, change: Change) -> Any:
    if isinstance(params, dict) and isinstance(params.get(name), str):
        return {**params, name: change(params[name])}
    return params


def _folders(params: Any, change: Change) -> Any:
    params = _member(params, "cwd", change)
    if isinstance(params, dict) and isinstance(params.get("additionalDirectories"), list):
        folders = [change(folder) if isinstance(folder, str) else folder for folder in params["additionalDirectories"]]
        return {**params, "additionalDirectories": folders}
    return params


def _uri(uri: Any, change: Change) -> Any:
    if not isinstance(uri, str) or not uri.startswith(f"{_FILE}/"):
        return uri
    path, mark, rest = uri.removeprefix(_FILE).partition("#")
    before = unquote(path)
    after = change(before)
    return uri if after == before else f"{_FILE}{quote(after)}{mark}{rest}"


def _block(block: Any, change: Change) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "resource" and isinstance(block.get("resource"), dict):
        resource = block["resource"]
        return {**block, "resource": {**resource, "uri": _uri(resource.get("uri"), change)}}
    return {**block, "uri": _uri(block["uri"], change)} if "uri" in block else block


def _update(update: Any, change: Change) -> Any:
    if not isinstance(update, dict):
        return update
    kind = update.get("sessionUpdate")
    if kind in _BLOCKS:
        return {**update, "content": _block(update.get("content"), change)}
    return _tool(update, change) if kind in _TOOLS else update


def _tool(call: Any, change: Change) -> Any:
    if not isinstance(call, dict):
        return call
    if isinstance(call.get("locations"), list):
        call = {**call, "locations": [_member(location, "path", change) for location in call["locations"]]}
    if isinstance(call.get("content"), list):
        call = {**call, "content": [_tool_content(content, change) for content in call["content"]]}
    return call


def _tool_content(item: Any, change: Change) -> Any:
    if not isinstance(item, dict):
        return item
    if item.get("type") == "diff":
        return _member(item, "path", change)
    return {**item, "content": _block(item["content"], change)} if item.get("type") == "content" else item
