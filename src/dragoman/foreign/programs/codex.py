"""Codex: `~/.codex` with `config.toml`, `hooks.json`, `prompts`, `rules`, `skills`; `.codex` in a project."""

from __future__ import annotations

import ast
import shlex
from itertools import product
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from dragoman.foreign.agents import AgentDraft
from dragoman.foreign.files import line_of, table_of, toml_line
from dragoman.foreign.hooks import propose_hooks
from dragoman.foreign.models import model_name
from dragoman.foreign.rules import RuleProposals
from dragoman.foreign.servers import propose_server
from dragoman.foreign.texts import markdown_template

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.foreign.proposal import Source
    from dragoman.foreign.reading import Import
    from dragoman.foreign.rules import Action

_DECISIONS: Final[dict[str, Action]] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
_MOST_ALTERNATIVES: Final = 16
_ROLE_MEMBERS: Final = frozenset(
    ("model", "model_provider", "developer_instructions", "sandbox_mode", "name", "description")
)


def read(collected: Import) -> None:
    """Add the proposals for everything of Codex."""
    places, folder, root = collected.places, collected.folder, collected.root
    if places.scope == "user":
        override = folder / "AGENTS.override.md"
        collected.instructions(override if override.exists() else folder / "AGENTS.md", root)
        collected.commands(folder / "prompts", root, markdown_template)
    else:
        collected.native_instructions(("AGENTS.md",))
        if (places.project / "AGENTS.override.md").is_file():
            collected.instructions(places.project / "AGENTS.override.md", root)
    config = collected.files.toml(folder / "config.toml", root)
    collected.skills(folder / "skills", root, _skills_off({} if config is None else config[0]))
    shared = (places.home if places.scope == "user" else places.project) / ".agents" / "skills"
    if shared.is_dir():
        collected.native("skills", "skills", shared)
    if config is not None:
        _read_config(collected, *config, folder, root)
    document = collected.files.json(folder / "hooks.json", root)
    if document is not None:
        for proposal in propose_hooks(
            document.value.get("hooks", {}),
            collected.source(document.path),
            places,
            collected.settings.get("hooks"),
            lambda *keys: line_of(document, "hooks", *keys),
        ):
            collected.add(proposal)
    named = {str(value.get("config_file")) for value in _agents(config[0] if config else {}).values()}
    for path in collected.files.named(folder / "agents", ".toml"):
        if not named & {str(path), f"agents/{path.name}", f"./agents/{path.name}"}:
            _read_role(collected, path.stem, {}, path, root, collected.source(path))
    for path in collected.files.named(folder / "rules", ".rules"):
        _read_rules(collected, path, root)


def _read_config(collected: Import, config: dict[str, Any], text: str, folder: Path, root: Path) -> None:
    path = folder / "config.toml"
    source = collected.source(path)
    for name, value in table_of(config, "mcp_servers").items():
        here = source.at(toml_line(text, "mcp_servers", name))
        collected.add(propose_server(name, value, here, collected.places, collected.servers))
    for name, value in _agents(config).items():
        file = value.get("config_file")
        here = source.at(toml_line(text, "agents", name))
        _read_role(collected, name, value, folder / file if isinstance(file, str) else None, root, here)
    if "hooks" in config:
        events = {event: groups for event, groups in table_of(config, "hooks").items() if event != "state"}
        for proposal in propose_hooks(
            events,
            source,
            collected.places,
            collected.settings.get("hooks"),
            lambda *keys: toml_line(text, "hooks", str(keys[0])),
        ):
            collected.add(proposal)
    if isinstance(config.get("model"), str):
        provider = config.get("model_provider", "openai")
        model, why = model_name("codex", config["model"], provider if isinstance(provider, str) else "openai")
        collected.model(model, why, config["model"], source.at(toml_line(text, "model")))
    _name_the_rest(collected, config, text, source)


def _name_the_rest(collected: Import, config: dict[str, Any], text: str, source: Source) -> None:
    """List what has no place here."""
    for name, value in table_of(config, "plugins").items():
        if isinstance(value, dict) and value.get("enabled") is not False:
            collected.plugin(name, source.at(toml_line(text, "plugins", name)))
    for member in ("developer_instructions", "model_instructions_file", "experimental_instructions_file"):
        if config.get(member):
            why = f"{member} of the configuration is not read; copy what matters into AGENTS.md"
            collected.impossible("instructions", member, source.at(toml_line(text, member)), why)
    if config.get("notify"):
        why = "a program that is started for each event is not imported; a hook can do that"
        collected.impossible("hooks", "notify", source.at(toml_line(text, "notify")), why)
    if config.get("default_permissions") or config.get("permissions"):
        why = "profiles of permissions cannot be expressed; see --mode and the sandbox"
        member = "default_permissions" if config.get("default_permissions") else "permissions"
        collected.impossible("rules", member, source.at(toml_line(text, member)), why)
    for member, ours in (("approval_policy", "--mode"), ("sandbox_mode", "--mode auto")):
        value = config.get(member)
        if value is None:
            continue
        is_open = value in ("never", "danger-full-access")
        why = "what permits without asking is never imported" if is_open else f"modes are not imported; see {ours}"
        name = f"{member} {value}" if isinstance(value, str) else member
        collected.impossible("rules", name, source.at(toml_line(text, member)), why)


def _read_role(
    collected: Import, name: str, declared: dict[str, Any], path: Path | None, root: Path, source: Any
) -> None:
    """Read a role: a partial configuration whose instructions are the prompt."""
    config: dict[str, Any] = {}
    if path is not None:
        read = collected.files.toml(path, root)
        if read is None:
            return
        config = read[0]
    draft = AgentDraft(collected, str(config.get("name") or name), source)
    draft.describe(str(declared.get("description") or config.get("description") or ""))
    if isinstance(config.get("model"), str):
        draft.use_model(config["model"], str(config.get("model_provider", "openai")))
    if config.get("sandbox_mode") == "read-only":
        draft.use_mode("plan")
    elif "sandbox_mode" in config:
        draft.notes.append(f"sandbox_mode {config['sandbox_mode']} is not carried over")
    draft.notes += [f"{key} is not carried over" for key in config if key not in _ROLE_MEMBERS]
    draft.propose(str(config.get("developer_instructions", "")))


def _skills_off(config: dict[str, Any]) -> set[str]:
    """Return the names of the skills that are switched off, by their name or by the path of their file."""
    entries = table_of(config, "skills").get("config")
    off: set[str] = set()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("enabled") is False:
            path = PurePath(str(entry.get("path") or ""))
            off.add(str(entry.get("name") or (path.parent.name if path.name == "SKILL.md" else path.name)))
    return off


def _agents(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: value for name, value in table_of(config, "agents").items() if isinstance(value, dict)}


def _read_rules(collected: Import, path: Path, root: Path) -> None:
    """Read rules: calls `prefix_rule(pattern=["git", "push"], decision="prompt")` in Starlark, read as Python."""
    text = collected.files.text(path, root)
    if text is None:
        return
    try:
        calls = [node.value for node in ast.parse(text).body if isinstance(node, ast.Expr)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        collected.files.report(path, f"cannot be understood and is left out: {error}")
        return
    make = RuleProposals(collected.places, collected.rules)
    for call in calls:
        if not isinstance(call, ast.Call):
            continue
        source = collected.source(path, call.lineno)
        written = " ".join((ast.get_source_segment(text, call) or "").split())[:80]
        if not isinstance(call.func, ast.Name) or call.func.id != "prefix_rule":
            collected.impossible("rules", written, source, "only prefix_rule(...) is read")
            continue
        try:
            given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
            action = _DECISIONS[given.get("decision", "allow")]
            options = [[part] if isinstance(part, str) else list(part) for part in given["pattern"]]
        except (ValueError, KeyError, TypeError):
            collected.impossible("rules", written, source, "its pattern or decision cannot be read")
            continue
        lines = [shlex.join(words) for words in product(*options)] if _count(options) <= _MOST_ALTERNATIVES else []
        if not lines or not all(isinstance(word, str) and word for option in options for word in option):
            collected.impossible("rules", f"{action} {written}", source, "its words cannot be written as rules")
            continue
        collected.add(make.propose(action, " | ".join(lines), [f"execute:{line} *" for line in lines], source))


def _count(options: list[list[str]]) -> int:
    total = 1
    for option in options:
        total *= max(len(option), 1)
    return total if options else _MOST_ALTERNATIVES + 1
