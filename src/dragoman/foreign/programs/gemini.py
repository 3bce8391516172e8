"""Gemini CLI: `~/.gemini` with `settings.json`, `commands`, `policies`; `.gemini` in a project."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.foreign.agents import AgentDraft
from dragoman.foreign.files import line_of, table_of
from dragoman.foreign.hooks import propose_hooks
from dragoman.foreign.models import model_name
from dragoman.foreign.naming import plain_name
from dragoman.foreign.precedence import OrderedRule
from dragoman.foreign.rules import Inexpressible, command_rule, kind_of, kinds_for
from dragoman.foreign.servers import propose_server
from dragoman.foreign.texts import gemini_template

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dragoman.foreign.reading import Import
    from dragoman.foreign.rules import Action
    from dragoman.settings.documents import Document

_DECISIONS: Final[dict[str, Action]] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
_STRICT: Final = {"allow": 0, "ask": 1, "deny": 2}
_RULE_MEMBERS: Final = frozenset(("toolName", "mcpName", "commandPrefix", "decision", "priority"))
_AGENT_MEMBERS: Final = frozenset(
    ("name", "description", "kind", "display-name", "tools", "model", "max-turns", "temperature")
)
_TOOL: Final = re.compile(r"([\w*]+)(?:\((.*)\))?", re.DOTALL)
_ENABLEMENT: Final = "mcp-server-enablement.json"


def read(collected: Import) -> None:
    """Add the proposals for everything of Gemini CLI."""
    places, folder, root = collected.places, collected.folder, collected.root
    if places.scope == "user":
        collected.instructions(folder / "GEMINI.md", root)
    else:
        collected.native_instructions(("GEMINI.md",))
    document = collected.files.json(folder / "settings.json", root)
    members = {} if document is None else document.value
    for path in collected.files.named(folder / "commands", ".toml"):
        _read_command(collected, path, folder / "commands", root)
    collected.skills(folder / "skills", root, _words(table_of(members, "skills").get("disabled")))
    overrides = table_of(table_of(members, "agents"), "overrides")
    for path in collected.files.named(folder / "agents", ".md"):
        _read_agent(collected, path, root, overrides)
    if document is not None:
        _read_settings(collected, document)
    # A linked one has only a file that names its folder.
    files = ("gemini-extension.json", ".gemini-extension-install.json")
    for extension in sorted((folder / "extensions").glob("*/")):
        manifest = next((extension / name for name in files if (extension / name).exists()), None)
        if manifest is not None:
            collected.plugin(extension.name, collected.source(manifest))
    for path in collected.files.named(folder / "policies", ".toml"):
        _read_policy(collected, path, root)


def _read_command(collected: Import, path: Path, folder: Path, root: Path) -> None:
    read = collected.files.toml(path, root)
    if read is None:
        return
    members = read[0]
    name, source = plain_name(*path.relative_to(folder).with_suffix("").parts), collected.source(path)
    prompt = members.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        collected.impossible("commands", name, source, "it has no prompt")
        return
    body, notes = gemini_template(prompt)
    notes += [f"{key} is not carried over" for key in members if key not in ("prompt", "description")]
    collected.command(name, source, str(members.get("description", "")), "", body, notes)


def _read_agent(collected: Import, path: Path, root: Path, overrides: dict[str, Any]) -> None:
    text = collected.files.text(path, root)
    if text is None:
        return
    matter = read_front_matter(text)
    source = collected.source(path)
    draft = AgentDraft(collected, matter.text("name") or path.stem, source)
    if table_of(overrides, draft.name).get("enabled") is False:
        draft.problem = "it is switched off there (agents.overrides)"
    elif matter.text("kind") == "remote":
        draft.problem = "it runs at another place (kind: remote)"
    draft.describe(matter.text("description"))
    tools = matter.names("tools")
    if tools is not None and "*" not in tools:
        draft.only(tools)
    draft.use_model(matter.text("model"))
    draft.limit(matter.text("max-turns"))
    draft.notes += [f"{key} is not carried over" for key in matter.members if key not in _AGENT_MEMBERS]
    draft.propose(matter.body)


def _read_settings(collected: Import, document: Document) -> None:
    members, source = document.value, collected.source(document.path)
    off = _switched_off(collected, members)
    for name, value in table_of(members, "mcpServers").items():
        here = source.at(line_of(document, "mcpServers", name))
        if why := off(name):
            collected.impossible("mcp", name, here, f"it is switched off there ({why})")
        else:
            collected.add(propose_server(name, value, here, collected.places, collected.servers))
    if "hooks" in members and table_of(members, "hooksConfig").get("enabled") is False:
        collected.impossible("hooks", "hooks", source, "all hooks are switched off there (hooksConfig.enabled)")
    elif "hooks" in members:
        for proposal in propose_hooks(
            members["hooks"],
            source,
            collected.places,
            collected.settings.get("hooks"),
            lambda *keys: line_of(document, "hooks", *keys),
            off=_words(table_of(members, "hooksConfig").get("disabled")),
        ):
            collected.add(proposal)
    model = members.get("model")
    wanted = model.get("name") if isinstance(model, dict) else model
    if isinstance(wanted, str):
        collected.model(*model_name("gemini", wanted), wanted, source.at(line_of(document, "model")))
    context = table_of(members, "context").get("fileName") or members.get("contextFileName")
    if context and context not in ("GEMINI.md", "AGENTS.md", "CLAUDE.md", "CONTEXT.md"):
        names = ", ".join(map(str, context)) if isinstance(context, list) else str(context)
        why = "the names of files with instructions cannot be chosen; AGENTS.md, CLAUDE.md and GEMINI.md are read"
        collected.impossible("instructions", names, source.at(line_of(document, "context", "fileName")), why)
    _read_tool_lists(collected, document)
    mode = table_of(members, "general").get("defaultApprovalMode") or table_of(members, "tools").get("approvalMode")
    if isinstance(mode, str) and mode != "default":
        collected.impossible("rules", f"defaultApprovalMode {mode}", source, "modes are not imported; see --mode")


def _switched_off(collected: Import, members: dict[str, Any]) -> Callable[[str], str]:
    """Return what says where a server is switched off; "" if it is not. Names count in any case there."""
    lists = table_of(members, "mcp")
    allowed, excluded = (
        {name.lower() for name in _words(lists.get(list_name))} for list_name in ("allowed", "excluded")
    )
    folder = collected.places.gemini
    enablement = collected.files.json(folder / _ENABLEMENT, folder)  # `gemini mcp disable` writes it, for all projects
    states = {} if enablement is None else {name.lower(): state for name, state in enablement.value.items()}

    def why(name: str) -> str:
        name = name.lower()
        if name in excluded:
            return "mcp.excluded"
        if allowed and name not in allowed:
            return "mcp.allowed"
        return _ENABLEMENT if table_of(states, name).get("enabled") is False else ""

    return why


def _words(value: Any) -> tuple[str, ...]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def _read_tool_lists(collected: Import, document: Document) -> None:
    """Read `tools.allowed` and `tools.exclude`; a tool that is excluded does not exist, whatever is allowed."""
    tools = table_of(document.value, "tools")
    rules: list[OrderedRule] = []
    actions: tuple[tuple[str, Action], ...] = (("allowed", "allow"), ("exclude", "deny"))
    for member, action in actions:
        listed = tools.get(member)
        for number, text in enumerate(listed if isinstance(listed, list) else ()):
            shape = _TOOL.fullmatch(text) if isinstance(text, str) else None
            line = line_of(document, "tools", member, number)
            if shape is None:
                collected.impossible(
                    "rules", f"{action} {text}"[:80], collected.source(document.path, line), "it cannot be read"
                )
                continue
            pattern = "*" if not shape[2] else f"{shape[2].removesuffix('*').removesuffix(':').strip()} *"
            rules.append(OrderedRule(shape[1], pattern, action, text, line))
    collected.ordered_rules(rules, document.path, rule_texts)


def _read_policy(collected: Import, path: Path, root: Path) -> None:
    read = collected.files.toml(path, root)
    if read is None:
        return
    members, text = read
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith("[[rule]]")]
    found_rules: list[tuple[int, OrderedRule]] = []
    entries = members.get("rule")
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        line = lines[number] if number < len(lines) else 0
        if not isinstance(entry, dict) or entry.get("decision") not in _DECISIONS:
            collected.impossible(
                "rules", f"rule {number + 1}", collected.source(path, line), "it has no known decision"
            )
            continue
        for rule in _rules_of(entry, line):
            found_rules.append(
                (int(entry.get("priority", 0)) if str(entry.get("priority", 0)).isdecimal() else 0, rule)
            )
    # The highest priority wins, so that it comes last; among equals, the strictest.
    found_rules.sort(key=lambda ranked: (ranked[0], _STRICT[ranked[1].action]))
    collected.ordered_rules([rule for _, rule in found_rules], path, rule_texts)


def _rules_of(entry: dict[str, Any], line: int) -> list[OrderedRule]:
    """Return the rules of one entry: one for each tool and each prefix. A tool `?WHY` cannot be expressed."""
    action = _DECISIONS[entry["decision"]]
    tools = entry.get("toolName", "*")
    tools = tools if isinstance(tools, list) else [tools]
    prefixes = entry.get("commandPrefix", "*")
    prefixes = prefixes if isinstance(prefixes, list) else [prefixes]
    unsaid = sorted(entry.keys() - _RULE_MEMBERS)
    server = entry.get("mcpName")
    found = []
    for tool in map(str, tools):
        for prefix in map(str, prefixes):
            pattern = "*" if prefix == "*" else f"{prefix.strip()} *"
            name = " ".join(word for word in (str(server or ""), tool, "" if prefix == "*" else prefix) if word)
            if server:
                tool = f"mcp:{server}:{tool}"
            if unsaid:
                name = f"{name} ({', '.join(unsaid)})"
                pattern = f"{pattern}\n{', '.join(unsaid)}"
            found.append(OrderedRule(tool, pattern, action, name, line))
    return found


def rule_texts(rule: OrderedRule) -> tuple[str, ...]:
    """Return the rules of ours that state one of Gemini CLI's. Raises: Inexpressible."""
    pattern, _, unsaid = rule.pattern.partition("\n")
    if unsaid:
        raise Inexpressible(f"{unsaid} cannot be expressed")
    if rule.tool.startswith("mcp:"):
        return (rule.tool.removesuffix(":*"),)
    if rule.tool == "*":
        return ("*",)
    kind = kind_of(rule.tool)
    if kind == "execute":
        return (command_rule(pattern),)
    if pattern != "*":
        raise Inexpressible(f"a pattern for {rule.tool} cannot be expressed")
    return kinds_for(kind, rule.action)
