"""The adapter that the words of `dragoman wrap` name: an object, an endpoint, a program or a command."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.cli import exits

if TYPE_CHECKING:
    from dragoman.adapters import Adapter
    from dragoman.cli.command import CliCall

_SEE_HELP = "see dragoman wrap --help"
# Options that only some sources take.
_FOR_ENDPOINTS = ("as", "header", "body", "resume")
_FOR_CHAT = ("model", "system")


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def check_words(call: CliCall) -> None:
    """Raises: CliError for words that do not belong together."""
    given = call.given
    named = [name for name in (given.source, given.url, call.program) if name]
    if len(named) != 1:
        problem = "wrap needs one source" if named else "wrap needs a source"
        raise exits.CliError(
            f"{problem}: MODULE:OBJECT, a URL or a command after --", hint="dragoman wrap my_agent:agent"
        )
    url = given.url or (given.source if given.source and is_url(given.source) else None)
    if url is None:
        for name in (*_FOR_ENDPOINTS, *_FOR_CHAT):
            if getattr(given, name) not in (None, False, []):
                raise exits.CliError(f"--{name} is for endpoints, with a URL", hint=_SEE_HELP)
    if given.source is not None and (given.store or given.no_sessions):
        from dragoman.adapters.programs import PROGRAMS

        if given.source in PROGRAMS:
            name = "--store" if given.store else "--no-sessions"
            raise exits.CliError(f"{name} is not for {given.source}, which keeps its sessions itself", hint=_SEE_HELP)
    if given.folder is not None and not Path(given.folder).is_dir():
        raise exits.CliError(f"there is no folder {given.folder}", hint=_SEE_HELP)


def adapter_for(call: CliCall) -> Any:
    """Return the adapter, or the agent if the object is one already. Raises: ConfigError, AdapterError, CliError."""
    given = call.given
    if call.program:
        from dragoman.adapters.programs import command_adapter

        return command_adapter(call.program)
    url = given.url or (given.source if is_url(given.source) else None)
    if url is not None:
        return _endpoint(url, given)
    if ":" not in given.source:
        from dragoman.adapters.programs import program_adapter

        return program_adapter(given.source)
    from dragoman.adapters.imported import find_object

    return find_object(given.source, Path(given.folder or ".").absolute())


def _endpoint(url: str, given: Any) -> Adapter:
    from dragoman.adapters import ag_ui, openai_chat, ui_stream

    headers = dict(_header(text) for text in given.header)
    body = _body(given.body)
    kind = getattr(given, "as")
    if kind is None:
        from dragoman.adapters.endpoints.detect import detect

        kind = asyncio.run(detect(url, headers))
    if kind != "chat":
        for name in _FOR_CHAT:
            if getattr(given, name) is not None:
                raise exits.CliError(f"--{name} is for chat endpoints, and this one is {kind}", hint=_SEE_HELP)
    if kind == "chat":
        return openai_chat(url, model=given.model, system=given.system or "", headers=headers, body=body)
    if kind == "ag-ui":
        return ag_ui(url, headers=headers, body=body)
    return ui_stream(url, headers=headers, body=body, resume=given.resume)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise exits.CliError(f"--header takes 'NAME: VALUE', not {text!r}", hint="--header 'Authorization: Bearer ...'")
    return name.strip().lower(), value.strip()


def _body(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise exits.CliError(f"--body is not a JSON object: {error}", hint="""--body '{"temperature": 0}'""") from None
