"""`dragoman rules`: what the user has allowed and denied, why something would be asked, and changes of both."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json, write_table

if TYPE_CHECKING:
    from dragoman.policy import Action, Request, Rule, Scope
    from dragoman.registry.settings import Settings
    from dragoman.store.rules import KeptScope

_VERBS: Final = ("list", "explain", "add", "remove")
_SEE_HELP: Final = "see dragoman rules --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.verb != "explain":
        if call.program is not None:
            raise exits.CliError(f"rules {given.verb} takes nothing after --", hint=_SEE_HELP)
        if given.agent is not None:
            raise exits.CliError("--agent goes with explain; a rule can name its agent: gemini@edit", hint=_SEE_HELP)
    actions = _actions(given)
    if actions and given.verb in ("list", "explain"):
        raise exits.CliError(f"--{actions[0]} goes with add and remove", hint=_SEE_HELP)
    if given.all and given.verb != "list":
        raise exits.CliError("--all goes with list", hint=_SEE_HELP)
    if given.everywhere and given.verb in ("list", "explain"):
        raise exits.CliError("--everywhere goes with add and remove", hint=_SEE_HELP)
    folder = os.path.realpath(given.project or ".")
    if not os.path.isdir(folder):
        raise exits.CliError(f"--project {given.project}: there is no such folder", hint="name a folder that exists")
    from dragoman.registry.settings import find_project

    project = str(find_project(Path(folder)))
    if given.verb == "list":
        return _list(given, project)
    if given.verb == "explain":
        return _explain(call, project, folder)
    return _change(given, project, actions)


def _actions(given: Any) -> list[str]:
    return [action for action in ("allow", "deny", "ask") if getattr(given, action)]


def _list(given: Any, project: str) -> int:
    if given.rule is not None:
        raise exits.CliError("rules list takes no rule", hint=_SEE_HELP)
    rows = _kept_rows(project, everything=given.all) + _settings_rows(project)
    if given.json:
        write_json(rows)
    elif rows:
        header = ("ACTION", "RULE", "FOR", "WRITTEN IN")
        write_table(header, [(row["action"], row["rule"], _scope_shown(row), row["source"]) for row in rows])
    else:
        sys.stderr.write("no rules: everything is asked for\n")
    return exits.OK


def _scope_shown(row: dict[str, Any]) -> str:
    return row["project"] or ("every project" if row["scope"] == "pinned" else "this repository")


def _kept_rows(project: str, *, everything: bool) -> list[dict[str, Any]]:
    from dragoman.store.rules import open_rules

    file = open_rules()
    return [
        _row(kept.rule, project=kept.project, added=kept.added, source=str(file.path))
        for kept in file.kept()
        if everything or kept.project in (None, project)
    ]


def _settings_rows(project: str) -> list[dict[str, Any]]:
    return [_row(rule, project=None, added="", source=rule.source) for rule in _settings_rules(project)]


def _row(rule: Rule, *, project: str | None, added: str, source: str) -> dict[str, Any]:
    return {
        "rule": rule.text,
        "action": rule.action,
        "scope": rule.scope,
        "project": project,
        "added": added or None,
        "source": source,
    }


def _settings_rules(project: str) -> list[Rule]:
    """Rules of settings files; what a repository may not say is told on stderr and decides nothing."""
    from dragoman.policy import parse_rule
    from dragoman.registry.settings import load_settings, project_file, user_file
    from dragoman.store.places import config_dir
    from dragoman.text.terminal import one_line

    own = load_settings(user_file(config_dir()), "user")
    shipped = load_settings(project_file(Path(project)), "project")
    for note in shipped.notes:
        sys.stderr.write(f"dragoman: warning: {one_line(note)}\n")
    scopes: tuple[tuple[Settings, Scope], ...] = ((own, "pinned"), (shipped, "repository"))
    return [
        parse_rule(text, action, scope, f"{settings.path}: rules.{action}")
        for settings, scope in scopes
        for action in ("deny", "ask", "allow")
        for text in getattr(settings.rules, action)
    ]


def _explain(call: CliCall, project: str, folder: str) -> int:
    from dragoman.policy import judge, proposals
    from dragoman.store.rules import open_rules

    request = _request(call, project, folder)
    verdict = judge([*open_rules().rules(project), *_settings_rules(project)], request)
    rule = verdict.rule
    if call.given.json:
        found = None if rule is None else _row(rule, project=None, added="", source=rule.source)
        write_json({"verdict": verdict.action, "why": verdict.why, "rule": found, "always": list(proposals(request))})
        return exits.OK
    sys.stdout.write(f"{verdict.action}: {verdict.why}\n")
    if verdict.action == "ask":
        offered = proposals(request)
        means = f"`always` would write: allow {offered[0]}" if offered else "`always` would not be remembered"
        sys.stdout.write(f"{means}\n")
    return exits.OK


def _request(call: CliCall, project: str, folder: str) -> Request:
    from dragoman.policy import KINDS, Request
    from dragoman.policy.rule import PATH_KINDS

    kind, words = call.given.rule, call.program or ()
    if kind not in KINDS:
        raise exits.CliError(
            f"explain needs a kind of request: {', '.join(KINDS)}", hint="dragoman rules explain execute -- npm test"
        )
    given: dict[str, Any] = {}
    if kind == "execute" and words:
        # One word with spaces in it is a line for a shell, as agents send it.
        given = {"shell": words[0]} if len(words) == 1 else {"command": words}
    elif kind in PATH_KINDS:
        given = {"paths": tuple(word if word.startswith("~/") else os.path.join(folder, word) for word in words)}
    elif kind == "fetch" and len(words) == 1:
        given = {"host": words[0]}
    elif kind == "mcp" and len(words) == 2:
        kind, given = "other", {"mcp": words}
    elif words or kind == "mcp":
        raise exits.CliError(f"explain {kind} takes other words after --", hint=_SEE_HELP)
    home = os.path.expanduser("~")
    return Request(call.given.agent or "", kind, " ".join(words), root=project, home=home, **given)


def _change(given: Any, project: str, actions: list[str]) -> int:
    from dragoman.store.rules import open_rules

    if given.rule is None:
        raise exits.CliError(f"rules {given.verb} needs a rule", hint="dragoman rules add --allow 'edit:src/**'")
    if len(actions) > 1 or (given.verb == "add" and not actions):
        raise exits.CliError(f"rules {given.verb} {given.rule}: say --allow, --deny or --ask", hint=_SEE_HELP)
    file = open_rules()
    scope: KeptScope = "pinned" if given.everywhere else "project"
    where = "every project" if given.everywhere else project
    action: Action | None = actions[0] if actions else None  # type: ignore[assignment]  # one of the three
    if given.verb == "add":
        assert action is not None
        is_new = file.remember(given.rule, action, scope, project)
        said = f"{action} {given.rule} for {where}" if is_new else f"{action} {given.rule} was there already"
    else:
        if not file.forget(given.rule, action, scope, project):
            raise exits.CliError(
                f"there is no rule {given.rule} for {where}", hint="see dragoman rules list --all, and --everywhere"
            )
        said = f"removed {given.rule} for {where}"
    if given.json:
        write_json({"rule": given.rule, "action": action, "scope": scope, "file": str(file.path)})
    else:
        sys.stderr.write(f"{said} ({file.path})\n")
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Shows and changes the rules by which an agent's requests are allowed, denied or asked about, and explains\n"
        "what they make of one. A rule is [AGENT@]KIND[:PATTERN]: read, edit:src/**, execute:npm test (these words),\n"
        "execute:npm test * (these words first), fetch:example.org, mcp:SERVER:TOOL, gemini@edit. A deny beats every\n"
        "allow. Protected files (.git, shell start-up files, settings of editors and agents) and lines that are more\n"
        "than one simple command are always asked about. Without --everywhere a rule is for one project."
    ),
    arguments=(
        Argument("verb", "what to do", choices=_VERBS),
        Argument("rule", "the rule to add or remove; the kind of request to explain", is_optional=True),
    ),
    options=(
        CliOption("--allow", "add a rule that allows"),
        CliOption("--deny", "add a rule that denies"),
        CliOption("--ask", "add a rule that has it asked about, whatever else allows it"),
        CliOption("--everywhere", "the rule is for every project"),
        CliOption("--project", "the project, if it is not that of the current folder", value="DIR"),
        CliOption("--all", "list the rules of all projects"),
        CliOption("--agent", "explain a request of this agent", value="NAME"),
        JSON,
    ),
    examples=(
        "dragoman rules list",
        "dragoman rules add --allow 'execute:npm test *'",
        "dragoman rules add --deny 'edit:secrets/**' --everywhere",
        "dragoman rules explain execute -- npm test",
        "dragoman rules explain execute -- 'npm test; id'",
        "dragoman rules explain edit -- src/main.py",
        "dragoman rules remove 'execute:npm test *'",
    ),
    takes_program=True,
)
