"""A check of what the built-in agent needs on this machine, which names the remedy for what is missing.

Owns the list of checks: model and key, packages, programs, files, sandbox. It calls no provider and changes nothing;
the only programs it starts are the login shell, if the agent would start it too, and `bwrap`. Blocks.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.builtin.command_guard import CommandGuard
from dragoman.builtin.context.commands import read_commands
from dragoman.builtin.context.instructions import LIMIT_BYTES, read_instructions
from dragoman.builtin.environment import login_environment, needs_login_environment
from dragoman.builtin.models.catalogue import facts_of, known_models
from dragoman.builtin.models.find import NO_MODEL, WITHOUT_PROVIDER, find_model
from dragoman.builtin.models.keys import ModelEnvironment
from dragoman.builtin.models.providers import default_model, key_owner, missing_key, provider_of
from dragoman.builtin.tools.search_ripgrep import find_ripgrep
from dragoman.errors import ConfigError, StoreError
from dragoman.extras import install_command
from dragoman.registry.doctor import DoctorFinding as Finding
from dragoman.settings.credentials import Credentials
from dragoman.settings.rule_file import RuleFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dragoman.builtin.settings import AgentSettings

_LOG_IN: Final = "dragoman agent login PROVIDER"
NO_REAL_MODEL: Final = f"no real model can run here yet: store a key with {_LOG_IN}, and get what is missing above"
_FOR_A_MODEL: Final = ("model", "model key", "httpx2", "pydantic-ai")


def examine_agent(settings: AgentSettings, cwd: Path, env: Mapping[str, str]) -> list[Finding]:
    """Check everything that a session in `cwd` would need."""
    keys = ModelEnvironment(Credentials(settings.config_dir), env)
    keys.reread()
    model = settings.model or default_model(keys)
    return [
        *_model("model", model, keys),
        *(_model("title model", settings.title_model, keys) if settings.title_model else ()),
        *_stored_keys(keys),
        *_real_model(model, keys),
        *_packages(model),
        _ripgrep(),
        _store(settings.store),
        _rules(settings.rules_file, cwd),
        _shell(env),
        _sandbox(settings, cwd),
        *_context(settings, cwd),
    ]


def has_real_model(findings: Sequence[Finding]) -> bool:
    """Whether a model of a provider can run here: it is chosen, and its key and packages are there."""
    return not any(finding.what in _FOR_A_MODEL and finding.state == "missing" for finding in findings) and not any(
        finding.what == "real model" for finding in findings
    )


def _real_model(model: str | None, keys: ModelEnvironment) -> Iterator[Finding]:
    """State that only a script can run, so that its answers are not taken for those of a model."""
    is_scripted = model is not None and model.partition(":")[0] in WITHOUT_PROVIDER
    if is_scripted and default_model(keys) is None:
        yield Finding("real model", "note", "none can run here: no key of a provider is set or stored", _LOG_IN)


def _stored_keys(keys: ModelEnvironment) -> Iterator[Finding]:
    """Name the stored keys and where they are, never the keys."""
    assert keys.credentials is not None
    try:
        stored = keys.credentials.keys()
    except ConfigError as error:
        yield Finding("stored keys", "missing", str(error), f"move it away, and log in again: {_LOG_IN}")
        return
    for id, entry in sorted(stored.items()):
        where = "in the keyring of the system" if entry.place == "keyring" else f"in {keys.credentials.path}"
        owner = key_owner(id)
        if "/" in id:  # a variable of another agent
            yield Finding(f"stored key of {id}", "ok", where)
            continue
        if owner is None:
            problem = f"{where}; no such provider is known"
            yield Finding(f"stored key of {id}", "note", problem, f"dragoman agent logout {id}")
            continue
        source = keys.source_of(owner)
        if not source:
            problem = f"{where}, which does not give it"
            yield Finding(f"stored key of {id}", "note", problem, f"dragoman agent login {id}")
        elif source == entry.place:
            yield Finding(f"stored key of {id}", "ok", where)
        else:
            yield Finding(f"stored key of {id}", "ok", f"{where}; {source} is set, and is used in its place")


def _model(what: str, name: str | None, env: ModelEnvironment) -> Iterator[Finding]:
    if name is None:
        fix = f"{_LOG_IN}, or export ANTHROPIC_API_KEY=..., or dragoman agent --model PROVIDER:MODEL"
        yield Finding(what, "missing", NO_MODEL, fix)
        return
    try:
        found = find_model(name)
    except ConfigError as error:
        yield Finding(what, "missing", str(error), "dragoman agent --model PROVIDER:MODEL")
        return
    if found.is_scripted:
        yield Finding(what, "ok", f"{name} (plays a script and calls no service)")
    elif (nearest := _nearest_names(name)) is not None:
        yield Finding(what, "note", f"{name} is not in the catalogue; a new model may work nevertheless", nearest)
    else:
        yield Finding(what, "ok", name)
    provider = missing_key(name, env)
    if provider is not None:
        variables = " or ".join(provider.variables)
        owner = key_owner(provider.id)
        login = "" if owner is None else f"dragoman agent login {owner.id}, or "
        fix = f"{login}export {provider.variables[0]}=..."
        yield Finding(f"{what} key", "missing", f"{variables} is not set, and no key is stored", fix)
    elif (known := provider_of(name)) is not None and known.variables:
        # Where it comes from, never its value.
        places = {"file": f"stored in {env.path}", "keyring": "stored in the keyring of the system"}
        source = env.source_of(known)
        place = places.get(source, source) or next(variable for variable in known.variables if env.get(variable))
        yield Finding(f"{what} key", "ok", place)


def _nearest_names(name: str) -> str | None:
    """Return a hint with similar names if the catalogue lists models of this provider, but not this one."""
    provider, _, _ = name.partition(":")
    known = [f"{provider}:{facts.id}" for facts in known_models(provider)]
    if not known or facts_of(name) is not None:
        return None
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, n=3, cutoff=0.0)
    return f"similar names: {', '.join(nearest)}"


def _packages(model: str | None) -> Iterator[Finding]:
    provider = None if model is None else provider_of(model)
    if _has("httpx2"):
        yield Finding("httpx2", "ok", _version("httpx2"))
    elif provider is None or provider.form == "package":
        yield Finding("httpx2", "note", "not installed; models of most providers need it", install_command("agent"))
    else:
        yield Finding(
            "httpx2", "missing", f"not installed; models of {provider.title} need it", install_command("agent")
        )
    if _has("pydantic_ai"):
        yield Finding("pydantic-ai", "ok", _version("pydantic-ai-slim"))
    elif provider is not None and provider.form == "package":
        what = f"not installed; models of {provider.title or provider.id} need it"
        yield Finding("pydantic-ai", "missing", what, install_command("providers"))
    if _has("mcp"):
        yield Finding("mcp", "ok", _version("mcp"))
    else:
        yield Finding("mcp", "note", "not installed; MCP servers cannot be used", install_command("agent"))


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is not installed
        return False


def _version(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return "installed"


def _ripgrep() -> Finding:
    program = find_ripgrep()
    if program is not None:
        return Finding("ripgrep", "ok", program)
    return Finding(
        "ripgrep", "note", "not found; searching works without it, but more slowly", "install ripgrep (the program rg)"
    )


def _store(path: Path) -> Finding:
    fix = "make it writable, or name another file with --store FILE"
    if path.exists():
        try:
            asyncio.run(_open(path))
        except StoreError as error:
            return Finding("store", "missing", str(error), fix)
        return Finding("store", "ok", str(path))
    folder = next(folder for folder in path.parents if folder.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Finding("store", "missing", f"{path} cannot be created: {folder} is not writable", fix)
    return Finding("store", "ok", f"{path} (created with the first session)")


async def _open(path: Path) -> None:
    from dragoman.store.sessions import Store

    await (await Store.open(path)).close()


def _rules(path: Path, cwd: Path) -> Finding:
    try:
        count = len(RuleFile(path).rules(cwd))
    except ConfigError as error:
        return Finding("rules", "missing", str(error), f"correct {path}; until then none of your rules applies")
    return Finding("rules", "ok", f"{count} for this project")


def _shell(env: Mapping[str, str]) -> Finding:
    if not needs_login_environment(env):
        return Finding("login shell", "ok", "not needed: PATH is set")
    if login_environment(env) is not None:
        return Finding("login shell", "ok", "it completes the environment, whose PATH is minimal")
    return Finding(
        "login shell",
        "note",
        "PATH is minimal and the login shell gives no better one; commands may not be found",
        "start the editor from a terminal, or set PATH for the agent in the editor's settings",
    )


def _sandbox(settings: AgentSettings, cwd: Path) -> Finding:
    """State which sandbox is in force in mode `auto`, and what it promises."""
    guard = CommandGuard((str(cwd),), settings)
    guard.prepare()
    if guard.sandbox is not None:
        return Finding("sandbox", "ok", f"{guard.sandbox.backend}. {guard.sandbox.describe()}")
    return Finding(
        "sandbox", "note", f"mode auto is not offered here: {guard.why_not}", "docs/sandbox.md lists what it needs"
    )


def _context(settings: AgentSettings, cwd: Path) -> Iterator[Finding]:
    found = read_instructions(str(cwd), (), settings.config_dir)
    if found.is_cut:
        detail = f"{', '.join(found.paths)}: more than {LIMIT_BYTES // 1024} KB, so a part is left out"
        yield Finding("instructions", "note", detail, "shorten them")
    elif found.paths:
        yield Finding("instructions", "ok", ", ".join(found.paths))
    templates = [
        command.name for command in read_commands(str(cwd), settings.config_dir).values() if command.source != "agent"
    ]
    if templates:
        yield Finding("commands", "ok", ", ".join(f"/{name}" for name in templates))
