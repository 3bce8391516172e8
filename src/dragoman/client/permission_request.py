"""Reads what an agent's permission request is about, from the forms that real agents send.

Owns the places where agents put a path, a command or an address. What cannot be read for certain stays empty: then no
rule with a pattern covers it, and the user is asked. Does not judge.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dragoman.policy import Request
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.client.session import Session
    from dragoman.state import SessionState

_CHANGING: Final = frozenset({"edit", "delete", "move"})
_PATH_KEYS: Final = (
    "file_path",
    "filePath",
    "fileName",
    "filename",
    "path",
    "abs_path",
    "absolute_path",
    "notebook_path",
    "target_file",
    "source",
    "destination",
    "old_path",
    "new_path",
)
_COMMAND_KEYS: Final = ("command", "cmd", "commandLine", "shell_command")
_FOLDER_KEYS: Final = ("cwd", "workdir", "working_directory", "directory", "dir_path")
# Editing tools that have a member `command` for what they do to a file.
_EDITING_WORDS: Final = frozenset({"view", "create", "str_replace", "insert", "undo_edit", "write", "read", "edit"})
_MCP_NAME: Final = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)", re.DOTALL)
_HOST: Final = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]+")
# Kimi CLI sends what it runs as prose only, Kimi Code what it writes; a text that was cut ends with an ellipsis.
_KIMI_COMMAND: Final = re.compile(r"Requesting approval to perform: Run command `(?P<line>.+)`", re.DOTALL)
_KIMI_PATH: Final = re.compile(r"Requesting approval to (?:Writing|Editing) (?P<path>/.*[^…])")
# The patch format of `apply_patch`: every file it touches stands in a line of its own, relative to the project.
_PATCH: Final = re.compile(r"\*\*\* Begin Patch\r?\n")
_PATCH_FILE: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (?P<path>[^\r\n]+)", re.MULTILINE)
# Gemini CLI and Qwen Code send no input; for their shell tool the title is the command line.
_GEMINI_SHELL: Final = re.compile(r"run_shell_command[_-].*")


def describe(
    request: v1.RequestPermissionRequest, state: SessionState, *, agent: str, root: str, home: str = ""
) -> Request:
    """The permission request as a request for the rules.

    Args:
        request: the agent's `session/request_permission`.
        state: the session's state, which already includes this tool call, so that earlier updates count.
        agent: the agent's name, as rules state it.
        root: the project's folder.
        home: the user's home folder.
    """
    patch = request.tool_call
    call = state.tool_calls.get(patch.tool_call_id)
    if call is not None and call.turn != len(state.turns) - 1:
        call = None  # the agent used an id again: the old call is not this one
    content = patch.content or (call.content if call else ())
    raw = patch.raw_input if isinstance(patch.raw_input, dict) else (call.raw_input if call else None)
    title = patch.title or (call.title if call else "") or ""
    kind = patch.kind or (call.kind if call else "") or "other"
    locations = patch.locations or (call.locations if call else ())
    found = Request(agent, kind, title, root=root, home=home)
    mcp = _mcp_tool(patch, raw)
    if mcp is not None:
        return replace(found, mcp=mcp, paths=_unique(location.path for location in locations))
    from_text: dict[str, Any] = {}
    if not isinstance(raw, dict):
        raw, from_text = {}, _read_text(patch.tool_call_id, title, kind, content)
    diffs = [item.path for item in content if isinstance(item, v1.Diff)]
    diffs += [os.path.join(root, path) for path in _patched_files(raw)]
    paths = _unique([*diffs, *(location.path for location in locations), *_paths(raw or from_text)])
    command, shell, is_command = _command(raw or from_text, kind, has_paths=bool(paths))
    if diffs and kind not in _CHANGING and kind != "execute":
        kind = "edit"
    elif is_command and kind not in _CHANGING:
        kind = "execute"
    return replace(found, kind=kind, paths=paths, command=command, shell=shell, cwd=_folder(raw), host=_host(raw))


def settle_paths(request: Request, session: Session, *, agent: str, root: str | None = None) -> Request:
    """The same request with its agent and project filled in, and every path both as written and with links resolved.

    A path that cannot be resolved stays as written.
    """
    given_root = root if root is not None else session.cwd
    real_root = os.path.realpath(given_root)
    home = request.home or os.path.expanduser("~")
    paths: list[str] = []
    for path in request.paths:
        if "\0" in path:
            paths.append(path)
            continue
        whole = os.path.normpath(os.path.join(given_root, os.path.expanduser(path)))
        inside = os.path.relpath(whole, given_root)
        # The project's folder may itself be a link; rules are about the project under any of its names.
        paths.append(whole if inside.startswith("..") else os.path.normpath(os.path.join(real_root, inside)))
        paths.append(os.path.realpath(os.path.join(given_root, os.path.expanduser(path))))
    return replace(
        request,
        agent=request.agent or agent,
        root=real_root,
        home=home,
        paths=_unique(paths),
        cwd=os.path.realpath(os.path.join(given_root, request.cwd)) if request.cwd else "",
    )


def _unique(paths: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for path in paths if isinstance(path, str) and path))


def _read_text(tool_call_id: str, title: str, kind: str, content: Any) -> dict[str, str]:
    """The command or path of an agent that sends prose instead of input; only whole texts of a known form count."""
    if kind == "execute" and _GEMINI_SHELL.fullmatch(tool_call_id):
        return {"command": title}
    texts = [
        item.content.text
        for item in content
        if isinstance(item, v1.Content) and isinstance(item.content, v1.TextContent)
    ]
    if len(texts) == 1:
        if command := _KIMI_COMMAND.fullmatch(texts[0]):
            return {"command": command["line"]}
        if path := _KIMI_PATH.fullmatch(texts[0]):
            return {"path": path["path"]}
    return {}


def _paths(raw: dict[str, Any]) -> Iterator[str]:
    for key in _PATH_KEYS:
        value = raw.get(key)
        if isinstance(value, str):
            yield value
    files = raw.get("files")  # a tool that takes several files: paths, or objects with one
    for each in files if isinstance(files, list) else ():
        yield from _paths(each) if isinstance(each, dict) else (each,)
    changes = raw.get("changes")  # a patch over several files: a mapping by path
    if isinstance(changes, dict):
        yield from changes


def _patched_files(raw: dict[str, Any]) -> Iterator[str]:
    """The files that a patch among the arguments changes."""
    for text in raw.values():
        if isinstance(text, str) and _PATCH.match(text.lstrip()):
            yield from (found["path"].strip() for found in _PATCH_FILE.finditer(text))


def _command(raw: dict[str, Any], kind: str, *, has_paths: bool) -> tuple[tuple[str, ...] | None, str | None, bool]:
    """(argv, shell line, whether there is a command); two commands that differ are a command that cannot be read."""
    given = [raw[key] for key in _COMMAND_KEYS if raw.get(key)]
    several = raw.get("commands")
    if not given and isinstance(several, list) and several and all(isinstance(line, str) for line in several):
        given = ["; ".join(several)]
    if not given or (kind != "execute" and has_paths and given[0] in _EDITING_WORDS):
        return None, None, False
    first = given[0]
    if any(other != first for other in given[1:]):
        return None, None, True
    if isinstance(first, list) and all(isinstance(word, str) for word in first):
        return tuple(first), None, True
    if not isinstance(first, str):
        return None, None, True
    arguments = raw.get("args")
    if arguments is None or arguments == []:
        return None, first, True
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        return (first, *arguments), None, True
    return None, None, True


def _folder(raw: dict[str, Any]) -> str:
    return next((raw[key] for key in _FOLDER_KEYS if isinstance(raw.get(key), str)), "")


def _mcp_tool(patch: v1.ToolCallPatch, raw: Any) -> tuple[str, str] | None:
    vendor = (patch.meta or {}).get("claudeCode")
    names = (patch.name, vendor.get("toolName") if isinstance(vendor, dict) else None)
    for name in names:
        if isinstance(name, str) and (found := _MCP_NAME.fullmatch(name)):
            return found["server"], found["tool"]
    if isinstance(raw, dict) and {"server", "tool"} <= raw.keys() <= {"server", "tool", "arguments", "invocation"}:
        server, tool = raw["server"], raw["tool"]
        if isinstance(server, str) and isinstance(tool, str):
            return server, tool
    return None


def _host(raw: dict[str, Any]) -> str | None:
    url = raw.get("url") or raw.get("uri")
    # Browsers read a backslash as a slash and this parser does not: they would see different hosts.
    if not isinstance(url, str) or "\\" in url or not url.isprintable() or " " in url:
        return None
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url if "://" in url else f"https://{url}").hostname
    except ValueError:
        return None
    return host if host and _HOST.fullmatch(host) else None
