"""opencode: `~/.config/opencode` with `opencode.json`; `opencode.json` and `.opencode` in a project."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.foreign.agents import AgentDraft
from dragoman.foreign.files import line_of, table_of
from dragoman.foreign.models import model_name
from dragoman.foreign.naming import plain_name
from dragoman.foreign.precedence import OrderedRule
from dragoman.foreign.rules import (
    Inexpressible,
    command_rule,
    host_rule,
    kind_of,
    kinds_for,
    wildcard_globs,
)
from dragoman.foreign.secrets import masked
from dragoman.foreign.servers import propose_server
from dragoman.foreign.texts import markdown_template

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.foreign.proposal import Kind, Source
    from dragoman.foreign.reading import Import
    from dragoman.settings.documents import Document

_ACTIONS: Final = ("allow", "ask", "deny")
_EDITING: Final = ("write", "edit", "patch", "multiedit")  # one permission there
_ENTRY: Final = re.compile(r"""( *)("[^"]*"|'[^']*'|[^\s"'#:][^#:]*?)\s*:(?:\s+(.*))?""")
_FLAGS: Final = {"true": True, "false": False}
_ELSEWHERE: Final[dict[str, Kind]] = {"skills": "skills", "references": "instructions"}
_AGENT_MEMBERS: Final = frozenset(
    (
        *("description", "mode", "model", "steps", "maxSteps", "maxsteps", "tools", "permission", "prompt"),
        *("disable", "hidden", "color", "temperature", "top_p", "top-p", "name"),
    )
)


def read(collected: Import) -> None:
    """Add the proposals for everything of opencode."""
    places, folder, root = collected.places, collected.folder, collected.root
    if places.scope == "user":
        collected.instructions(folder / "AGENTS.md", root)
    else:
        collected.native_instructions(("AGENTS.md", "CONTEXT.md"))
    for name in ("command", "commands"):
        collected.commands(folder / name, root, markdown_template)
    for name in ("skill", "skills"):
        collected.skills(folder / name, root)
    for name in ("agent", "agents"):
        for path in collected.files.named(folder / name, ".md"):
            _read_agent_file(collected, path, folder / name, root)
    for name in ("plugin", "plugins"):
        for ending in (".ts", ".js"):
            for path in collected.files.named(folder / name, ending, deepest=0):
                collected.plugin(path.stem, collected.source(path))
    configs = [folder / name for name in ("opencode.json", "opencode.jsonc")]
    if places.scope == "project":
        configs = [*(places.project / path.name for path in configs), *configs]
    for path in configs:
        document = collected.files.json(path, root)
        if document is not None:
            _read_config(collected, document)


def _read_config(collected: Import, document: Document) -> None:
    members, source = document.value, collected.source(document.path)

    def at(*keys: str | int) -> Source:
        return source.at(line_of(document, *keys))

    servers = table_of(members, "mcp")
    for name, value in servers.items():
        collected.add(propose_server(name, value, at("mcp", name), collected.places, collected.servers))
    for name, value in table_of(members, "command").items():
        template = value.get("template") if isinstance(value, dict) else None
        if not isinstance(template, str) or not template.strip():
            collected.impossible("commands", name, at("command", name), "it has no template")
            continue
        body, notes = markdown_template(template)
        notes += [f"{key} is not carried over" for key in value if key not in ("template", "description")]
        collected.command(name, at("command", name), str(value.get("description", "")), "", body, notes)
    for name, value in table_of(members, "agent").items():
        if isinstance(value, dict):
            _read_agent(collected, name, value, str(value.get("prompt", "")), at("agent", name))
    if isinstance(members.get("model"), str):
        model, why = model_name("opencode", members["model"])
        collected.model(model, why, members["model"], at("model"))
    if "permission" in members or "tools" in members:
        rules = _flat(document, members)
        collected.ordered_rules(rules, document.path, lambda rule: rule_texts(rule, list(servers)))
    _name_the_rest(collected, document, members)


def _name_the_rest(collected: Import, document: Document, members: dict[str, Any]) -> None:
    """List what has no place here."""

    def at(*keys: str | int) -> Source:
        return collected.source(document.path, line_of(document, *keys))

    if "instructions" in members:
        why = "files and addresses named in the configuration are not read; copy what matters into AGENTS.md"
        collected.impossible("instructions", "instructions", at("instructions"), why)
    for member, kind in _ELSEWHERE.items():
        if members.get(member):
            why = "folders and addresses named in the configuration are not read; copy what matters"
            collected.impossible(kind, member, at(member), why)
    plugins = members.get("plugin")
    for number, plugin in enumerate(plugins if isinstance(plugins, list) else ()):
        name = plugin[0] if isinstance(plugin, list) and plugin else plugin
        collected.plugin(masked(str(name)), at("plugin", number))


def _read_agent_file(collected: Import, path: Path, folder: Path, root: Path) -> None:
    text = collected.files.text(path, root)
    if text is None:
        return
    matter = read_front_matter(text)
    members: dict[str, Any] = dict(matter.members)
    for name in ("tools", "permission"):
        if name in members:
            members[name] = _map(text, name) or _nested(matter.text(name))
    _read_agent(
        collected,
        plain_name(*path.relative_to(folder).with_suffix("").parts),
        members,
        matter.body,
        collected.source(path),
    )


def _map(text: str, name: str) -> dict[str, Any] | None:
    """Return the map of one or two levels below a member of front matter; None if there is something else."""
    lines = text.replace("\r\n", "\n").partition("\n---")[0].split("\n")
    start = next((at for at, line in enumerate(lines, 1) if re.fullmatch(rf"{name}\s*:\s*(#.*)?", line)), len(lines))
    found: dict[str, Any] = {}
    inner: dict[str, Any] | None = None
    depth = 0
    for line in lines[start:]:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line.startswith(" "):
            break
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            return None
        key, value = entry[2].strip().strip("\"'"), (entry[3] or "").partition(" #")[0].strip().strip("\"'")
        depth = depth or len(entry[1])
        if len(entry[1]) == depth:
            inner = None if value else {}
            found[key] = _FLAGS.get(value, value) if value else inner
        elif inner is not None and len(entry[1]) > depth and value:
            inner[key] = _FLAGS.get(value, value)
        else:
            return None
    return found or None


def _nested(text: str) -> Any:
    """Read a map in braces, such as `{write: false, bash: false}`; anything else stays as it is."""
    if not text.startswith("{"):
        return text
    words = text.replace("{", " ").replace("}", " ").replace(",", " ").split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or not all(name.endswith(":") and not value.endswith(":") for name, value in pairs):
        return text
    return {name.rstrip(":").strip("\"'"): _FLAGS.get(value, value) for name, value in pairs}


def _read_agent(collected: Import, name: str, members: dict[str, Any], prompt: str, source: Source) -> None:
    if members.get("disable") in (True, "true"):
        return collected.impossible("agents", name, source, "it is switched off there (disable)")
    draft = AgentDraft(collected, name, source)
    draft.describe(str(members.get("description") or ""))
    if members.get("mode") == "primary":
        draft.notes.append("it talks with the user there; here it is a subagent")
    if "{file:" in prompt:
        draft.problem = "its prompt is in another file ({file:...})"
    draft.use_model(str(members.get("model") or ""))
    draft.limit(members.get("steps") or members.get("maxSteps") or members.get("maxsteps"))
    tools = members.get("tools")
    if isinstance(tools, dict):
        draft.without([tool for tool, is_on in tools.items() if is_on is False and tool != "*"])
        if tools.get("*") is False:
            draft.only([tool for tool, is_on in tools.items() if is_on is True])
    elif tools:
        draft.problem = "its tools cannot be read"
    _restrict(draft, members.get("permission"))
    draft.notes += [f"{key} is not carried over" for key in members if key not in _AGENT_MEMBERS]
    return draft.propose(prompt)


def _restrict(draft: AgentDraft, permission: Any) -> None:
    """Take away tools of which anything is denied: a declaration cannot deny a part of a tool."""
    if isinstance(permission, str):
        permission = {"*": permission} if permission in _ACTIONS else permission
    if not isinstance(permission, dict):
        if permission:
            draft.problem = "its permission cannot be read"
        return
    for tool, rule in permission.items():
        words = set(map(str, rule.values())) if isinstance(rule, dict) else {str(rule)}
        if "deny" not in words:
            if words != {"allow"} and words != {"ask"}:
                draft.notes.append(f"permission.{tool} is not carried over")
            continue
        if tool == "*" or not isinstance(tool, str):
            draft.problem = "everything is denied to it"
        else:
            draft.without([tool])
            if len(words) > 1:
                draft.notes.append(f"parts of {tool} are denied to it; all of {tool} is taken away")


def _flat(document: Document, members: dict[str, Any]) -> list[OrderedRule]:
    """Return the rules in their order. The last one that matches wins; `tools`, the older form, comes first."""
    permission = members.get("permission")
    if isinstance(permission, str):
        permission = {"*": permission}
    replaced = permission if isinstance(permission, dict) else {}
    found = []
    for tool, is_on in table_of(members, "tools").items():
        name = "edit" if tool in _EDITING else tool
        if isinstance(is_on, bool) and name not in replaced:
            found.append(OrderedRule(name, "*", "allow" if is_on else "deny", tool, line_of(document, "tools", tool)))
    for tool, rule in permission.items() if isinstance(permission, dict) else ():
        patterns = rule if isinstance(rule, dict) else {"*": rule}
        for pattern, action in patterns.items():
            keys = ("permission", tool, pattern) if isinstance(rule, dict) else ("permission", tool)
            if action in _ACTIONS:
                name = tool if pattern == "*" else f"{tool} {pattern}"
                found.append(OrderedRule(tool, pattern, action, name, line_of(document, *keys)))
    return found


def rule_texts(rule: OrderedRule, servers: list[str]) -> tuple[str, ...]:
    """Return the rules of ours that state one of opencode's. Raises: Inexpressible."""
    if rule.tool == "*":
        if rule.pattern != "*":
            raise Inexpressible("a pattern for every tool cannot be expressed")
        return ("*",)
    server = max((name for name in servers if rule.tool.startswith(f"{name}_")), key=len, default="")
    if server:
        tool = rule.tool[len(server) + 1 :]
        return (f"mcp:{server}" if tool == "*" else f"mcp:{server}:{tool}",)
    kind = kind_of(rule.tool)
    if kind == "execute":
        return (command_rule(rule.pattern),)
    if kind == "fetch":
        return (host_rule(rule.pattern),)
    kinds = kinds_for(kind, rule.action)
    if kind == "search" and rule.pattern != "*":
        raise Inexpressible("patterns of searches cannot be expressed")
    pattern = rule.pattern
    globs = wildcard_globs(pattern)
    return tuple(f"{kind}:{glob}" for kind in kinds for glob in globs) if globs else kinds
