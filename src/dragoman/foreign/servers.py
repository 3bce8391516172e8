"""MCP servers of the four programs, as entries of `mcp_servers`.

Each program has its own shape; variables of the environment stay variables, and keys become ones. What a server may do
is not imported: `trust` and the like are listed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.errors import ConfigError
from dragoman.foreign.naming import choose_name
from dragoman.foreign.proposal import NewMember, NewRule, Proposal, impossible
from dragoman.foreign.secrets import is_secret, referenced, variable_name
from dragoman.settings.documents import Document
from dragoman.settings.servers import check_mcp_server, wrong_agent_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.foreign.places import Places
    from dragoman.foreign.proposal import Change, Source, State

_NOWHERE: Final = Path("entry")
_TYPES: Final = {"http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}
_OPENCODE_VARIABLE: Final = re.compile(r"\{env:([A-Za-z_]\w*)\}")
_BARE_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


class NotImported(Exception):
    """A server is not imported; the message says why."""


class Converted(NamedTuple):
    """An entry in our form, what it loses, and the names of tools that were forbidden."""

    entry: dict[str, Any]
    notes: list[str]
    denied_tools: tuple[str, ...] = ()
    only_tools: tuple[str, ...] | None = None
    """The tools that are offered there, if not all of them are."""


def propose_server(name: str, value: Any, source: Source, places: Places, existing: Mapping[str, Any]) -> Proposal:
    """Make the proposal for one server. `existing` are the servers of the settings that are written to."""
    try:
        if not isinstance(value, dict):
            raise NotImported("it is not an object")
        if wrong_agent_name(name) or not _SAFE_NAME.fullmatch(name):
            raise NotImported("a server's name must consist of letters, digits, '.', '_' and '-'")
        entry, notes, denied, only = _READERS[source.program](value)
        _check(entry)
        entry, stored, variables = _without_keys(name, entry)
        if places.scope == "project" and "${" in json.dumps(entry):
            raise NotImported("a project's server cannot use variables or keys; add it to yours: dragoman mcp add")
    except NotImported as why:
        return impossible("mcp", name, source, str(why))
    taken = {name.casefold(): name for name in existing}

    def holder(wanted: str) -> str:
        if wanted.casefold() not in taken:
            return ""
        return (
            "same" if existing[taken[wanted.casefold()]] in (entry, stored) else f"in {places.short(places.settings)}"
        )

    chosen = choose_name(name, source.program, holder)
    notes += [chosen.note] if chosen.note and chosen.state == "ready" else []
    changes: tuple[Change, ...] = ()
    if chosen.state == "ready":
        changes = (NewMember(places.settings, ("mcp_servers", chosen.name), entry, stored if variables else None),)
        changes += tuple(_deny_tool(tool, chosen.name, places) for tool in denied)
    if denied:
        notes.append(f"its tools {', '.join(denied)} are denied by rules")
    state: State = chosen.state
    question = keys_question = ""
    if only is not None and state == "ready":
        # Rules have no exceptions, so that none can deny all tools but these.
        offered = ", ".join(only) or "none"
        notes.append(f"of its tools only these are offered there: {offered}; asked about at the terminal only")
        state, question = "question", f"Import {chosen.name} with all its tools, not only {offered}?"
    if variables:
        names = ", ".join(variables)
        notes.append(f"keys are not copied: set {names} in the environment, or store them when you are asked")
        keys_question = f"Store the keys of {chosen.name} ({names}) in {places.short(places.settings)}, too?"
    becomes = (
        chosen.note if chosen.state == "taken" else f"mcp_servers.{chosen.name} in {places.short(places.settings)}"
    )
    return Proposal(
        "mcp", name, source, state, becomes, tuple(notes), changes, question=question, keys_question=keys_question
    )


def _deny_tool(tool: str, server: str, places: Places) -> NewRule:
    text = f"mcp:{server}:{tool}"
    return NewRule("deny", text, places.settings if places.scope == "project" else None)


def _check(entry: dict[str, Any]) -> None:
    try:
        document = Document(_NOWHERE, json.dumps(entry))
        check_mcp_server(document, (), entry)
    except ConfigError as error:
        raise NotImported(str(error).partition(": ")[2]) from None


def _without_keys(name: str, entry: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the entry with variables in place of keys, the entry with its keys, and the names of the variables."""
    found: list[str] = []
    safe = dict(entry)

    def replaced(text: str, *words: str) -> str:
        filled, names = referenced(text, variable_name(name, *words))
        found.extend(names)
        return filled

    if "env" in entry:
        safe["env"] = {}
        for variable, value in entry["env"].items():
            is_key = is_secret(variable, value)
            safe["env"][variable] = f"${{{variable_name(variable)}}}" if is_key else value
            found += [variable_name(variable)] if is_key else []
    if "headers" in entry:
        safe["headers"] = {}
        for header, value in entry["headers"].items():
            safe["headers"][header] = text = replaced(value, header)
            if text == value and is_secret(header, value):
                safe["headers"][header] = f"${{{variable_name(name, header)}}}"
                found.append(variable_name(name, header))
    if "url" in entry:
        safe["url"] = replaced(entry["url"], "URL")
    if "args" in entry:
        safe["args"] = _safe_args(name, entry["args"], found)
    oauth = entry.get("oauth")
    if isinstance(oauth, dict) and "clientSecret" in oauth:
        variable = variable_name(name, "CLIENT_SECRET")
        rest = {member: value for member, value in oauth.items() if member != "clientSecret"}
        safe["oauth"] = {**rest, "clientSecretEnv": variable}
        found.append(variable)
    return safe, entry, list(dict.fromkeys(found))


def _safe_args(name: str, args: list[str], variables: list[str]) -> list[str]:
    """Replace keys in arguments: one after an option such as `--api-key` is a key, as is one that looks like it."""
    safe: list[str] = []
    for at, word in enumerate(args):
        option = args[at - 1] if at else ""
        variable = variable_name(name, *([option.lstrip("-")] if option.startswith("-") else ["ARGUMENT"]))
        is_value = option.startswith("-") and "=" not in option and not word.startswith("-")
        if is_value and is_secret(option.lstrip("-"), word):
            safe.append(f"${{{variable}}}")
            variables.append(variable)
        else:
            text, names = referenced(word, variable)
            safe.append(text)
            variables.extend(names)
    return safe


def _texts(value: Any, what: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise NotImported(f"{what} is not an object")
    return {str(name): str(text) for name, text in value.items() if isinstance(text, str | int | float)}


def _words(value: Any) -> tuple[str, ...]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def _listed(value: Any) -> tuple[str, ...] | None:
    """Return the words of a list that may be missing."""
    return None if value is None else _words(value)


def _unknown(value: dict[str, Any], *known: str) -> list[str]:
    return [f"{name} is not carried over" for name in value if name not in known]


def _oauth(value: Any, names: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    found = {ours: value[theirs] for theirs, ours in names.items() if value.get(theirs) not in (None, "")}
    return found, [f"oauth.{name} is not carried over" for name in value if name not in names]


def _from_claude(value: dict[str, Any]) -> Converted:
    kind = value.get("type", "stdio" if "command" in value else "http")
    if kind not in ("stdio", *_TYPES):
        raise NotImported(f"servers of the type {kind!r} are not supported")
    notes = _unknown(value, "type", "command", "args", "env", "url", "headers", "oauth")
    if kind == "stdio":
        return Converted(_program(value.get("command"), value.get("args"), value.get("env"), None), notes)
    entry = _address(value.get("url"), _TYPES[kind], value.get("headers"))
    if isinstance(value.get("oauth"), dict):
        entry["oauth"], lost = _oauth(
            value["oauth"], {"clientId": "clientId", "clientSecret": "clientSecret", "callbackPort": "callbackPort"}
        )
        notes += lost
    return Converted(entry, notes)


def _program(command: Any, args: Any, env: Any, cwd: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": command}
    if args:
        entry["args"] = args
    if env:
        entry["env"] = _texts(env, "env")
    if cwd:
        entry["cwd"] = cwd
    return entry


def _address(url: Any, kind: str, headers: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"url": url} if kind == "http" else {"type": kind, "url": url}
    if headers:
        entry["headers"] = _texts(headers, "headers")
    return entry


def _from_codex(value: dict[str, Any]) -> Converted:
    if value.get("enabled") is False:
        raise NotImported("it is switched off there (enabled = false)")
    notes = _unknown(
        value,
        *("command", "args", "env", "env_vars", "cwd", "url", "bearer_token_env_var", "http_headers"),
        *("env_http_headers", "oauth", "scopes", "enabled", "disabled_tools", "enabled_tools"),
    )
    if "command" in value:
        env = {name: f"${{{name}}}" for name in _words(value.get("env_vars"))}
        env |= _texts(value.get("env", {}), "env")
        entry = _program(value["command"], value.get("args"), env, value.get("cwd"))
    else:
        headers = _texts(value.get("http_headers", {}), "http_headers")
        named = _texts(value.get("env_http_headers", {}), "env_http_headers")
        headers |= {header: f"${{{variable}}}" for header, variable in named.items()}
        if value.get("bearer_token_env_var"):
            headers["Authorization"] = f"Bearer ${{{value['bearer_token_env_var']}}}"
        entry = _address(value.get("url"), "http", headers)
        oauth: dict[str, Any] = {}
        if isinstance(value.get("oauth"), dict):
            oauth, lost = _oauth(value["oauth"], {"client_id": "clientId", "callback_port": "callbackPort"})
            notes += lost
        if _words(value.get("scopes")):
            oauth["scopes"] = list(_words(value["scopes"]))
        if oauth:
            entry["oauth"] = oauth
    return Converted(entry, notes, _words(value.get("disabled_tools")), _listed(value.get("enabled_tools")))


def _from_opencode(value: dict[str, Any]) -> Converted:
    if value.get("enabled") is False:
        raise NotImported("it is switched off there (enabled: false)")
    if "{file:" in json.dumps(value):
        raise NotImported("it reads a value from a file ({file:...}), which cannot be expressed")
    value = json.loads(_OPENCODE_VARIABLE.sub(r"${\1}", json.dumps(value)))
    notes = _unknown(value, "type", "command", "environment", "cwd", "enabled", "url", "headers", "oauth")
    if value.get("type") == "local" or "command" in value:
        words = value.get("command")
        if not isinstance(words, list) or not words:
            raise NotImported("command is not a list of words")
        return Converted(_program(words[0], words[1:], value.get("environment"), value.get("cwd")), notes)
    entry = _address(value.get("url"), "http", value.get("headers"))
    if value.get("oauth") is False:
        entry["oauth"] = False
    elif isinstance(value.get("oauth"), dict):
        same = ("clientId", "clientSecret", "scope", "callbackPort")
        entry["oauth"], lost = _oauth(value["oauth"], {name: name for name in same})
        notes += lost
    return Converted(entry, notes)


def _from_gemini(value: dict[str, Any]) -> Converted:
    value = json.loads(_BARE_VARIABLE.sub(lambda found: f"${{{found[1] or found[2]}}}", json.dumps(value)))
    notes = _unknown(
        value,
        *("command", "args", "env", "cwd", "url", "httpUrl", "headers", "type", "trust", "oauth"),
        *("description", "includeTools", "excludeTools"),
    )
    if value.get("trust"):
        notes.append("trust is not carried over: its tools need permission")
    denied, only = _words(value.get("excludeTools")), _listed(value.get("includeTools"))
    if "command" in value:
        entry = _program(value["command"], value.get("args"), value.get("env"), value.get("cwd"))
        return Converted(entry, notes, denied, only)
    if "tcp" in value:
        raise NotImported("servers on a plain TCP port are not supported")
    is_http = "httpUrl" in value or value.get("type") == "http"
    entry = _address(value.get("httpUrl") or value.get("url"), "http" if is_http else "sse", value.get("headers"))
    if isinstance(value.get("oauth"), dict) and value["oauth"].get("enabled", True):
        given = {name: part for name, part in value["oauth"].items() if name != "enabled"}
        entry["oauth"], lost = _oauth(
            given, {"clientId": "clientId", "clientSecret": "clientSecret", "scopes": "scopes", "issuer": "issuer"}
        )
        notes += lost
    return Converted(entry, notes, denied, only)


_READERS: Final = {
    "claude": _from_claude,
    "codex": _from_codex,
    "opencode": _from_opencode,
    "gemini": _from_gemini,
}
