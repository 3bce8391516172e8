"""What cannot be expressed in another version of the protocol: one table for each direction, and what a translator met.

`docs/versions.md` shows these tables; a test compares them. A kind is reported once with its count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

V1_TO_V2: Final = {
    "client-files": "the client's files are not offered: an agent of version 2 uses its own file tools",
    "client-terminals": "the client's terminals are not offered: an agent of version 2 runs commands itself",
    "file-request": "a request for the client's files is refused with -32601",
    "terminal-request": "a request for a terminal of the client is refused with -32601",
    "terminal-reference": "a reference to a terminal of the client is left out of a tool call",
    "sse-server": "an MCP server of type sse is left out",
    "empty-select": "an option or a group without values to choose from is left out",
    "empty-options": "a permission request without options is answered as cancelled",
    "empty-prompt": "a prompt without content is refused with -32602",
    "replay-not-shown": "the agent cannot resume without a replay: it loads the session, and the replay is not shown",
    "no-list": "the agent cannot list sessions: only those opened on this connection are listed",
    "no-close": "the agent cannot close sessions: the turn is cancelled and the session forgotten",
    "no-logout": "the agent cannot log out: the request fails with -32603",
    "late-refusal": "a prompt that the agent refuses ends as a turn with an error, after it was accepted",
}
"""Version 1 to version 2."""

V2_TO_V1: Final = {
    "message-replaced": "a message that was replaced is shown again under a new id; the old text stays",
    "message-cleared": "a message that was cleared stays as it was shown",
    "background-work": "the list of work in the background is not shown",
    "own-work": "work that the agent began without a prompt is not marked as such",
    "requires-action": "the state `requires_action` is not shown",
    "tool-cancel": "a single tool call cannot be cancelled: the request is refused with -32602",
    "terminal-cancel": "a single terminal cannot be cancelled: the request is refused with -32602",
    "terminal-output": "the output of a terminal is shown as text in its tool call, without control characters",
    "terminal-state": "the size, command and exit status of a terminal are not shown",
    "terminal-unused": "a terminal that no tool call refers to is not shown",
    "content-chunks": "content added to a tool call is sent as the whole list, each time that its size has doubled",
    "diff-hunks": "a patch is shown as one diff for each hunk",
    "diff-without-text": "a change without text (move, copy, binary file) is shown as a line of text",
    "permission-title": "the title of a permission request replaces the title of its tool call",
    "permission-description": "the description of a permission request is shown as content of its tool call",
    "permission-subject": "a permission request without a tool call gets one made up",
    "permission-option": "an option of unknown kind is left out of a permission request",
    "permission-outcome": "an unknown answer to a permission request is passed on as cancelled",
    "tool-status": "a status that version 1 does not have is shown as the nearest one",
    "tool-kind": "a kind of tool that version 1 does not have is shown as `other`",
    "tool-cleared": "a cleared member of a tool call is shown as its empty value; a cleared name stays",
    "several-plans": "several plans are shown as one",
    "plan-entry": "a cancelled entry of a plan is left out, an unknown status is shown as `pending`",
    "plan-kind": "a plan that is not a list of entries is left out",
    "content-kind": "content of an unknown type is left out",
    "content-icons": "the icons of a resource link are left out",
    "content-role": "an unknown audience of content is left out",
    "command-kind": "a command of an unknown type is left out",
    "option-kind": "a configuration option that is neither select nor boolean is left out",
    "boolean-option": "a boolean option is left out: the client did not announce `session.configOptions.boolean`",
    "login-kind": "a way to log in that is neither agent nor terminal is left out",
    "server-kind": "an MCP server of an unknown type is left out",
    "notice": "a notice is left out: the client did not announce `session.notices`",
    "compaction": "a compaction is left out: the client did not announce `session.compaction`",
    "subagent": "a subagent is left out: the client did not announce `subagents`",
    "update-kind": "an update of an unknown kind is left out",
    "stop-reason": "an unknown stop reason is passed on as `end_turn`",
    "form-value": "a value of a form that is neither a text, a number, a truth value nor a list of texts is left out",
    "no-stdio-servers": "the agent does not start MCP servers: sessions with a stdio server are refused with -32602",
    "replay-cursor": "a replay from anywhere but the start is refused with -32602",
}
"""Version 2 to version 1."""

V1_TO_DIALECT: Final = {
    "permission-asked": "a permission request cannot be asked: the rules answer it, else it is refused",
    "form": "a form or a page to open cannot be shown: it is answered as cancelled",
    "content-as-text": "content that is not text is shown as a line of text",
    "user-message": "messages of the user, in a replay too, are not shown",
    "tool-title": "the title, kind and locations of a tool call are not shown",
    "plan-priority": "the priorities of a plan are not shown",
    "setting": "modes, options and commands are not shown",
    "usage": "the use of the context and the cost are not shown",
    "session-title": "the title of the session is not shown",
    "notice-update": "notices, compactions, subagents and unknown updates are not shown",
    "token": "a token to log in with cannot be passed on",
    "login-methods": "the ways to log in are not listed",
    "load-unknown": "a session of an agent without `loadSession` cannot be loaded: -32004",
    "stdio-arguments": "an MCP server with arguments cannot be named: the session is refused",
    "late-servers": "MCP servers are named at initialize: a session that brings its own is refused with -32602",
    "other-folder": "the folder is named at initialize: a session in another one is refused with -32602",
    "one-file-method": "a client that offers only reading or only writing of files offers neither",
    "method": "the method does not exist there: -32601",
    "cancel-unseen": "a turn that the agent does not end 30 seconds after a cancel is answered without it",
    "block-details": "annotations, titles, sizes and binary resources of content are left out",
}
"""Version 1 to the dialect 2025.1."""

DIALECT_TO_V1: Final = {
    "client-media": "what a client can show (audio, images, embedded context) is passed on in `_meta` only",
    "instructions": "the agent's instructions are passed on in `_meta` only",
    "agent-audio": "that an agent speaks is not passed on",
    "agent-tools": "the list of the agent's tools is not passed on",
    "mode-change": "a change of the mode is not shown: no modes were announced",
    "step-status": "the statuses `skipped` and `failed` of a plan's step are shown as `completed` and `pending`",
    "tool-status-word": "an unknown status of a tool call is shown as `in_progress`",
    "status-word": "an unknown status of a prompt is passed on in `_meta` only",
    "unknown-update": "an update of an unknown type is left out",
    "unclear-session": "a request for a file or a terminal is refused with -32003: it may belong to several sessions",
    "exit-signal": "the signal that ended a command is not passed on",
    "credentials": "credentials of an MCP server become variables or headers",
}
"""The dialect 2025.1 to version 1."""

TABLES: Final[dict[tuple[str, str], Mapping[str, str]]] = {
    ("1", "2"): V1_TO_V2,
    ("2", "1"): V2_TO_V1,
    ("1", "2025.1"): V1_TO_DIALECT,
    ("2025.1", "1"): DIALECT_TO_V1,
}
"""From version, to version: kind of loss and what it means."""

SENTENCES: Final[dict[str, str]] = {kind: what for table in TABLES.values() for kind, what in table.items()}


class Lost(Struct, frozen=True):
    """One kind of loss that a translator met."""

    kind: str
    what: str
    """A sentence for the user."""
    count: int


class Losses:
    """Counts what could not be translated, by kind, in the order in which it was first met."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, kind: str) -> None:
        """Count one loss; the kind is one of the tables' kinds."""
        if kind not in SENTENCES:
            raise KeyError(f"{kind!r} is in no table of losses")
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def counted(self) -> tuple[Lost, ...]:
        """Return each kind of loss once."""
        return tuple(Lost(kind, SENTENCES[kind], count) for kind, count in self._counts.items())
