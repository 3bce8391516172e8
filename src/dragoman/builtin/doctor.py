"""Checks what the built-in agent needs on this machine, and names the remedy for what is missing.

Owns the list of checks: model and key, packages, programs, files. It calls no provider and changes nothing; the only
program it starts is the login shell, if the agent would start it too. Blocks.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from dragoman.builtin.context.commands import read_commands
from dragoman.builtin.context.instructions import LIMIT_BYTES, read_instructions
from dragoman.builtin.environment import login_environment, needs_login_environment
from dragoman.builtin.models.find import NO_MODEL, find_model
from dragoman.builtin.models.providers import default_model, missing_key, provider_of
from dragoman.builtin.tools.search_ripgrep import find_ripgrep
from dragoman.errors import ConfigError, StoreError
from dragoman.registry.doctor import DoctorFinding as Finding
from dragoman.settings.rule_file import RuleFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dragoman.builtin.settings import AgentSettings

_EXTRA: Final = "pip install 'dragoman[agent]'"
# The package that a provider's models need in addition to pydantic-ai: its module, and pydantic-ai's extra for it.
_SDKS: Final = {"anthropic": ("anthropic", "anthropic"), "google": ("google.genai", "google")}
_OPENAI: Final = ("openai", "openai")
_ON_OPENAI: Final = frozenset({"openai", "openai-chat", "openai-responses", "openai-compatible", "ollama", "vllm"})


def examine_agent(settings: AgentSettings, cwd: Path, env: Mapping[str, str]) -> list[Finding]:
    """Check everything that a session in `cwd` would need."""
    model = settings.model or default_model(env)
    return [
        *_model("model", model, env),
        *(_model("title model", settings.title_model, env) if settings.title_model else ()),
        *_packages(model),
        _ripgrep(),
        _store(settings.store),
        _rules(settings.rules_file, cwd),
        _shell(env),
        *_context(settings, cwd),
    ]


def _model(what: str, name: str | None, env: Mapping[str, str]) -> Iterator[Finding]:
    if name is None:
        yield Finding(
            what, "missing", NO_MODEL, "export ANTHROPIC_API_KEY=... or dragoman agent --model PROVIDER:MODEL"
        )
        return
    try:
        found = find_model(name)
    except ConfigError as error:
        yield Finding(what, "missing", str(error), "dragoman agent --model PROVIDER:MODEL")
        return
    if found.is_scripted:
        yield Finding(what, "ok", f"{name} (plays a script and calls no service)")
    elif (nearest := _nearest_names(name)) is not None:
        yield Finding(what, "note", f"pydantic-ai does not list {name}; a new model may work nevertheless", nearest)
    else:
        yield Finding(what, "ok", name)
    provider = missing_key(name, env)
    if provider is not None:
        variables = " or ".join(provider.variables)
        yield Finding(f"{what} key", "missing", f"{variables} is not set", f"export {provider.variables[0]}=...")
    elif (known := provider_of(name)) is not None and known.variables:
        # The name of the variable, never its value.
        yield Finding(f"{what} key", "ok", next(variable for variable in known.variables if env.get(variable)))


def _nearest_names(name: str) -> str | None:
    """Return a hint with similar names if pydantic-ai lists models of this provider, but not this one."""
    if not _has("pydantic_ai"):
        return None
    from difflib import get_close_matches

    from pydantic_ai.models import KnownModelName

    provider, _, _ = name.partition(":")
    known = [each for each in get_args(KnownModelName.__value__) if each.startswith(f"{provider}:")]
    if not known or name in known:
        return None
    nearest = get_close_matches(name, known, n=3, cutoff=0.0)
    return f"similar names: {', '.join(nearest)}"


def _packages(model: str | None) -> Iterator[Finding]:
    provider = None if model is None else provider_of(model)
    if _has("pydantic_ai"):
        yield Finding("pydantic-ai", "ok", _version("pydantic-ai-slim"))
    elif provider is None:
        yield Finding("pydantic-ai", "note", "not installed; models of providers need it", _EXTRA)
    else:
        yield Finding("pydantic-ai", "missing", f"not installed; models of {provider.title} need it", _EXTRA)
    if provider is not None:
        sdk = _SDKS.get(provider.id) or (_OPENAI if provider.id in _ON_OPENAI else None)
        if sdk is not None and not _has(sdk[0]):
            fix = f"pip install 'pydantic-ai-slim[{sdk[1]}]'"
            yield Finding(sdk[0], "missing", f"not installed; models of {provider.title} need it", fix)
    if _has("mcp"):
        yield Finding("mcp", "ok", _version("mcp"))
    else:
        yield Finding("mcp", "note", "not installed; MCP servers cannot be used", _EXTRA)


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


def _context(settings: AgentSettings, cwd: Path) -> Iterator[Finding]:
    found = read_instructions(str(cwd), (), settings.config_dir)
    if found.is_cut:
        detail = f"{', '.join(found.paths)}: more than {LIMIT_BYTES // 1024} KB, so a part is left out"
        yield Finding("instructions", "note", detail, "shorten them")
    elif found.paths:
        yield Finding("instructions", "ok", ", ".join(found.paths))
    templates = [each.name for each in read_commands(str(cwd), settings.config_dir).values() if each.source != "agent"]
    if templates:
        yield Finding("commands", "ok", ", ".join(f"/{name}" for name in templates))
