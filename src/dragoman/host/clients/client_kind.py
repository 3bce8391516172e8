"""What one client can take, and what of an update it is sent. Pure.

Capabilities are announced to an agent once, and clients come and go. So the host announces everything, and leaves out
or converts here what this client did not announce.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dragoman.schema import UNSET, encode, v1

_UNSTABLE: Final = frozenset(
    ("plan_update", "plan_removed", "subagent_update", "session_message", "session_message_chunk")
)
_NOTICES: Final = frozenset(("notice",))
_COMPACTION: Final = frozenset(("compaction_update", "compaction_summary_chunk", "compaction"))
BATCH_MS: Final = (16, 250)
"""From a frame of a screen to what still reads as a stream."""


class ClientKind(msgspec.Struct, frozen=True):
    """What a client announced."""

    knows_us: bool = False
    notices: bool = False
    compaction: bool = False
    boolean_options: bool = False
    unstable: bool = False
    forms: bool = False
    urls: bool = False
    terminal_output: bool = False
    """It shows the output of terminals that other programs run, by `_meta`."""
    words: bool = False
    """It shows the words of a question in `_meta`; others are sent them as content of the tool call."""
    attachments: bool = False
    """It gets the name of an attachment in a prompt of another client; others get its data."""
    activity: bool = False
    """It gets `_dragoman/turn_started` for the turns of all clients, not only for its own."""
    batch_ms: int = 0
    """For how long pieces of a message may wait for more of it, to be sent joined; 0: they are sent as they come."""
    is_observer: bool = False
    reads_files: bool = False
    writes_files: bool = False
    terminals: bool = False
    terminal_login: bool = False
    is_bridge: bool = False
    """It is `dragoman connect`, behind which an editor is: that has started `dragoman connect`, not `dragoman`."""
    client: str | None = None
    """The same for every connection of one program, so that it is recognised when it comes back."""
    name: str = ""
    vendors: frozenset[str] = frozenset()
    """Whose extensions it announced: `zed.dev` in the `_meta` of its capabilities stands for `_zed.dev/...`."""
    methods: frozenset[str] = frozenset()
    """Extension methods that it announced one by one."""

    @property
    def forks(self) -> bool:
        """Whether it may use the method that copies sessions: one of ours announces what it uses, others cannot."""
        return self.unstable or not self.knows_us

    def has_extension(self, method: str) -> bool:
        """Whether it announced an extension method."""
        return method in self.methods or method.removeprefix("_").partition("/")[0] in self.vendors

    def takes(self, variant: str) -> bool:
        """Whether updates of this kind are sent at all."""
        if variant in _NOTICES:
            return self.notices
        if variant.startswith("compaction") or variant in _COMPACTION:
            return self.compaction
        return self.unstable or variant not in _UNSTABLE

    def convert(self, update: bytes, variant: str) -> bytes | None:
        """Return the update as this client is sent it; None if it is not."""
        if not self.takes(variant):
            return self._plain_plan(update) if variant == "plan_update" else None
        if variant == "config_option_update" and not self.boolean_options and b'"boolean"' in update:
            return _with_selects(update)
        return update

    def _plain_plan(self, update: bytes) -> bytes | None:
        found = msgspec.json.decode(update)
        plan = found.get("plan") if isinstance(found, dict) else None
        if not isinstance(plan, dict) or plan.get("type") != "items" or not isinstance(plan.get("entries"), list):
            return None
        return msgspec.json.encode({"sessionUpdate": "plan", "entries": plan["entries"]})


def read_client(params: v1.InitializeRequest) -> ClientKind:
    """Read what a client announced in `initialize`."""
    capabilities = params.client_capabilities
    name = params.client_info.name if params.client_info else ""
    if capabilities is UNSET or capabilities is None:
        return ClientKind(name=name)
    raw: Any = msgspec.json.decode(encode(capabilities))
    meta = raw.get("_meta") or {}
    session = raw.get("session") or {}
    elicitation = raw.get("elicitation") or {}
    own = meta.get("dragoman")
    files = raw.get("fs") or {}
    client = own.get("client") if isinstance(own, dict) else None
    methods = own.get("extensions") if isinstance(own, dict) else None
    return ClientKind(
        knows_us=isinstance(own, dict),
        notices=session.get("notices") is not None,
        compaction=session.get("compaction") is not None,
        boolean_options=(session.get("configOptions") or {}).get("boolean") is not None,
        unstable=isinstance(own, dict) and own.get("unstable") is True,
        forms=elicitation.get("form") is not None,
        urls=elicitation.get("url") is not None,
        terminal_output=meta.get("terminal_output") is True,
        words=isinstance(own, dict) and own.get("words") is True,
        attachments=isinstance(own, dict) and own.get("attachments") is True,
        activity=isinstance(own, dict) and own.get("activity") is True,
        batch_ms=_read_batch(own.get("batch")) if isinstance(own, dict) else 0,
        is_observer=isinstance(own, dict) and own.get("role") == "observer",
        reads_files=files.get("readTextFile") is True,
        writes_files=files.get("writeTextFile") is True,
        terminals=raw.get("terminal") is True,
        terminal_login=(raw.get("auth") or {}).get("terminal") is True,
        is_bridge=isinstance(own, dict) and isinstance(own.get("bridge"), str),
        client=client if isinstance(client, str) else None,
        name=name,
        vendors=frozenset(key for key, value in meta.items() if value not in (None, False) and key != "dragoman"),
        methods=frozenset(method for method in methods or () if isinstance(method, str))
        if isinstance(methods, list)
        else frozenset(),
    )


def _read_batch(batch: Any) -> int:
    """Return the milliseconds of `batch`, brought into the range that a reader does not notice."""
    ms = batch.get("ms", BATCH_MS[0]) if isinstance(batch, dict) else 0
    if isinstance(ms, bool) or not isinstance(ms, int | float) or ms <= 0:
        return 0
    return int(min(max(ms, BATCH_MS[0]), BATCH_MS[1]))


def select_of(option: dict[str, Any]) -> dict[str, Any]:
    """Return a boolean option as one that offers two values, for clients without boolean options."""
    return {
        **{name: value for name, value in option.items() if name not in ("type", "currentValue")},
        "type": "select",
        "currentValue": "true" if option.get("currentValue") else "false",
        "options": [{"value": "true", "name": "On"}, {"value": "false", "name": "Off"}],
    }


def options_for(kind: ClientKind, options: list[Any]) -> list[Any]:
    """Return the options of a session as this client is sent them."""
    if kind.boolean_options:
        return options
    return [
        select_of(option) if isinstance(option, dict) and option.get("type") == "boolean" else option
        for option in options
    ]


def _with_selects(update: bytes) -> bytes:
    found = msgspec.json.decode(update)
    found["configOptions"] = options_for(ClientKind(), found.get("configOptions") or [])
    return msgspec.json.encode(found)
