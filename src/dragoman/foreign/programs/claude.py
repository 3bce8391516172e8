"""Claude Code: `~/.claude`, `~/.claude.json`, and `.claude`, `.mcp.json` in a project."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.foreign.agents import AgentDraft
from dragoman.foreign.files import line_of
from dragoman.foreign.hooks import propose_hooks
from dragoman.foreign.models import model_name
from dragoman.foreign.precedence import OrderedRule, overlap
from dragoman.foreign.proposal import impossible
from dragoman.foreign.rules import (
    Inexpressible,
    RuleProposals,
    command_rule,
    gitignore_globs,
    host_rule,
    kind_of,
    kinds_for,
)
from dragoman.foreign.servers import propose_server
from dragoman.foreign.texts import markdown_template

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.foreign.reading import Import
    from dragoman.foreign.rules import Action
    from dragoman.settings.documents import Document

_RULE: Final = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)
_MCP: Final = re.compile(r"mcp__([A-Za-z0-9.-]+(?:_[A-Za-z0-9.-]+)*)(?:__(.+))?")
_MODES: Final = {"default": "", "plan": "plan", "acceptEdits": "edit"}
_AGENT_MEMBERS: Final = frozenset(
    ("name", "description", "tools", "disallowedtools", "model", "permissionmode", "maxturns", "color")
)


def read(collected: Import) -> None:
    """Add the proposals for everything of Claude Code."""
    places, folder, root = collected.places, collected.folder, collected.root
    if places.scope == "user":
        collected.instructions(folder / "CLAUDE.md", root)
    else:
        collected.native_instructions(("CLAUDE.md",))
        collected.instructions(folder / "CLAUDE.md", root)
        if (places.project / "CLAUDE.local.md").is_file():
            why = "it is for you alone in this project; there is no such file here"
            source = collected.source(places.project / "CLAUDE.local.md")
            collected.impossible("instructions", "CLAUDE.local.md", source, why)
    for path in collected.files.named(folder / "rules", ".md"):
        collected.instructions(path, root)
    collected.commands(folder / "commands", root, markdown_template)
    if (folder / "skills").is_dir():
        collected.native("skills", "skills", folder / "skills")
    for path in collected.files.named(folder / "agents", ".md"):
        _read_agent(collected, path, root)
    _read_servers(collected)
    for name in ("settings.json", *(["settings.local.json"] if places.scope == "project" else [])):
        document = collected.files.json(folder / name, root)
        if document is not None:
            _read_settings(collected, document, is_private=name == "settings.local.json")


def _read_agent(collected: Import, path: Path, root: Path) -> None:
    text = collected.files.text(path, root)
    if text is None:
        return
    matter = read_front_matter(text)
    draft = AgentDraft(collected, matter.text("name") or path.stem, collected.source(path))
    draft.describe(matter.text("description"))
    tools = matter.names("tools")
    if tools is not None and "*" not in tools:
        draft.only(tools)
    draft.without(matter.names("disallowedtools") or ())
    draft.use_model(matter.text("model"))
    mode = matter.text("permissionmode")
    if _MODES.get(mode):
        draft.use_mode(_MODES[mode])
    elif mode and mode not in _MODES:
        draft.notes.append(f"permissionMode {mode} is not carried over: it would permit without asking")
    draft.limit(matter.text("maxturns"))
    draft.notes += [f"{key} is not carried over" for key in matter.members if key not in _AGENT_MEMBERS]
    draft.propose(matter.body)


def _read_servers(collected: Import) -> None:
    places = collected.places
    if places.scope == "project":
        document = collected.files.json(places.project / ".mcp.json", places.project)
        _propose_servers(collected, document, "mcpServers")
        return
    document = collected.files.json(places.claude_state, places.claude_state.parent)
    if document is None:
        return
    _propose_servers(collected, document, "mcpServers")
    projects = document.value.get("projects")
    for project, state in projects.items() if isinstance(projects, dict) else ():
        servers = state.get("mcpServers") if isinstance(state, dict) else None
        for name in servers if isinstance(servers, dict) else ():
            why = f"it is for {project} alone; add it in that folder: dragoman mcp add {name} --project"
            collected.impossible(
                "mcp", name, collected.source(document.path, line_of(document, "projects", project)), why
            )


def _propose_servers(collected: Import, document: Document | None, member: str) -> None:
    if document is None:
        return
    servers = document.value.get(member)
    for name, value in servers.items() if isinstance(servers, dict) else ():
        source = collected.source(document.path, line_of(document, member, name))
        collected.add(propose_server(name, value, source, collected.places, collected.servers))


def _read_settings(collected: Import, document: Document, *, is_private: bool) -> None:
    members = document.value
    source = collected.source(document.path)
    if members.get("disableAllHooks") is True:
        collected.impossible("hooks", "hooks", source, "all hooks are switched off there (disableAllHooks)")
    elif "hooks" in members:
        if is_private:
            why = "hooks for you alone in a project cannot be expressed; write them into your own settings"
            collected.impossible("hooks", "hooks", source.at(line_of(document, "hooks")), why)
        else:
            for proposal in propose_hooks(
                members["hooks"],
                source,
                collected.places,
                collected.settings.get("hooks"),
                lambda *keys: line_of(document, "hooks", *keys),
            ):
                collected.add(proposal)
    plugins = members.get("enabledPlugins")
    for name, is_on in plugins.items() if isinstance(plugins, dict) else ():
        if is_on:
            collected.plugin(name, source.at(line_of(document, "enabledPlugins", name)))
    permissions = members.get("permissions")
    if isinstance(permissions, dict):
        _read_permissions(collected, document, permissions, is_private=is_private)
    if isinstance(members.get("model"), str):
        model, why = model_name("claude", members["model"])
        collected.model(model, why, members["model"], source.at(line_of(document, "model")))


def _read_permissions(collected: Import, document: Document, permissions: dict[str, Any], *, is_private: bool) -> None:
    make = RuleProposals(collected.places, collected.rules, is_private=is_private)
    base = "" if collected.places.scope == "project" else str(document.path.parent)
    actions: tuple[Action, ...] = ("deny", "ask", "allow")
    unsaid: list[OrderedRule] = []
    for action in actions:
        rules = permissions.get(action)
        for number, rule in enumerate(rules if isinstance(rules, list) else ()):
            source = collected.source(document.path, line_of(document, "permissions", action, number))
            if not isinstance(rule, str):
                collected.impossible("rules", f"{action} {rule!r}"[:60], source, "a rule must be a string")
                continue
            shape = _ordered(rule, action)
            limit = next((other for other in unsaid if action == "allow" and overlap(other, shape)), None)
            if limit is not None:
                why = f"it is restricted by `{limit.action} {limit.name}`, which cannot be expressed"
                collected.impossible("rules", f"{action} {rule}", source, why)
                continue
            try:
                proposal = make.propose(action, rule, rule_texts(rule, action, base), source)
            except Inexpressible as error:
                proposal = impossible("rules", f"{action} {rule}", source, str(error))
            collected.add(proposal)
            unsaid += [shape] if proposal.state == "impossible" else []
    mode = permissions.get("defaultMode")
    source = collected.source(document.path, line_of(document, "permissions", "defaultMode"))
    if mode in ("plan", "acceptEdits"):
        why = f'modes are not imported; the nearest one is "mode": "{_MODES[mode]}" in your settings'
        collected.impossible("rules", f"defaultMode {mode}", source, why)
    elif isinstance(mode, str) and mode != "default":
        why = "modes that permit without asking are never imported"
        collected.impossible("rules", f"defaultMode {mode}", source, why)
    folders = permissions.get("additionalDirectories")
    if isinstance(folders, list) and folders:
        source = collected.source(document.path, line_of(document, "permissions", "additionalDirectories"))
        collected.impossible("rules", "additionalDirectories", source, "folders are given to a session by its client")


def _ordered(rule: str, action: Action) -> OrderedRule:
    """Return the rule as a tool and a pattern, to see whether two of them overlap; paths are not compared."""
    tool, bracket, pattern = rule.strip().partition("(")
    is_command = bracket and tool == "Bash"
    pattern = pattern.removesuffix(")").replace(":*", " *") if is_command else "*"
    return OrderedRule(tool, pattern, action, rule)


def rule_texts(rule: str, action: Action, base: str) -> tuple[str, ...]:
    """Return the rules of ours that state one of Claude Code's. Raises: Inexpressible."""
    server = _MCP.fullmatch(rule)
    if server is not None:
        return (f"mcp:{server[1]}:{server[2]}" if server[2] else f"mcp:{server[1]}",)
    shape = _RULE.fullmatch(rule.strip())
    if shape is None:
        raise Inexpressible("it is not of the form Tool or Tool(pattern)")
    tool, pattern = shape[1], shape[2]
    kind = kind_of(tool)
    if kind == "execute":
        return (command_rule(pattern or "*"),)
    if kind == "fetch":
        return (host_rule(pattern or "*"),)
    kinds = kinds_for(kind, action)
    globs = gitignore_globs(pattern, base, action) if pattern else ()
    return tuple(f"{kind}:{glob}" for kind in kinds for glob in globs) if globs else kinds
