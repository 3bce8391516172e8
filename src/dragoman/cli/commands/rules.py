"""`dragoman rules`: lists, adds and removes permission rules, and explains what they decide about a request."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json, write_table

if TYPE_CHECKING:
    from dragoman.policy import Action, Request, Rule
    from dragoman.settings.rule_file import KeptScope

_VERBS: Final = ("list", "explain", "add", "remove")
_SEE_HELP: Final = "see dragoman rules --help"


def run(call: CliCall) -> int:
    given = call.given
    if given.verb != "explain":
        if call.program is not None:
            raise exits.CliError(f"rules {given.verb} does not take anything after --", hint=_SEE_HELP)
        if given.agent is not None:
            raise exits.CliError("--agent is for rules explain", hint="name the agent in the rule: gemini@edit")
    actions = _actions(given)
    if actions and given.verb in ("list", "explain"):
        raise exits.CliError(f"--{actions[0]} is for rules add and rules remove", hint=_SEE_HELP)
    if given.all and given.verb != "list":
        raise exits.CliError("--all is for rules list", hint=_SEE_HELP)
    if given.everywhere and given.verb in ("list", "explain"):
        raise exits.CliError("--everywhere is for rules add and rules remove", hint=_SEE_HELP)
    folder = os.path.realpath(given.project or ".")
    if not os.path.isdir(folder):
        raise exits.CliError(f"--project {given.project}: no such folder", hint="name a folder that exists")
    from dragoman.settings import find_project

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
        raise exits.CliError("rules list does not take a rule", hint=_SEE_HELP)
    rows = _kept_rows(project, everything=given.all) + _settings_rows(project)
    if given.json:
        write_json(rows)
    elif rows:
        header = ("ACTION", "RULE", "FOR", "WRITTEN IN")
        write_table(header, [(row["action"], row["rule"], _scope_shown(row), row["source"]) for row in rows])
    else:
        sys.stderr.write("there are no rules: every request is asked about\n")
    return exits.OK


def _scope_shown(row: dict[str, Any]) -> str:
    return row["project"] or ("every project" if row["scope"] == "pinned" else "this repository")


def _kept_rows(project: str, *, everything: bool) -> list[dict[str, Any]]:
    from dragoman.settings.rule_file import open_rules

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
    """Return the rules of both settings files. What a project's cannot decide is ignored, and reported on stderr."""
    from dragoman.settings import load_settings
    from dragoman.settings.places import config_dir
    from dragoman.text.terminal import one_line

    settings = load_settings(config_dir(), Path(project))
    for note in settings.project.notes if settings.project else ():
        sys.stderr.write(f"dragoman: warning: {one_line(note)}\n")
    return settings.rules()


def _explain(call: CliCall, project: str, folder: str) -> int:
    from dragoman.policy import proposals
    from dragoman.policy.verdict import explain_parts
    from dragoman.settings.rule_file import open_rules
    from dragoman.text.terminal import one_line
    from dragoman.workspace.folders import SessionFolders
    from dragoman.workspace.judging import judge_in

    folders = SessionFolders(folder, project=project)
    asked = folders.settle_request(_request(call, project, folder), call.given.agent or "")
    rules = [*open_rules().rules(project), *_settings_rules(project)]
    judgement = judge_in(rules, asked, folders)
    request, verdict = judgement.request, judgement.verdict
    parts = explain_parts(rules, request) if request.kind == "execute" else []
    rule = verdict.rule
    if call.given.json:
        found = None if rule is None else _row(rule, project=None, added="", source=rule.source)
        shown = [
            {
                "words": part.words,
                "programs": [{"program": name, "kind": kind or None} for name, kind in part.programs],
                "unknown": part.unknown or None,
                "project_code": list(part.project),
                "rules": [
                    {"rule": about.text, "action": about.action, "concerns": concern} for about, concern in part.rules
                ],
            }
            for part in parts
        ]
        write_json(
            {
                "verdict": verdict.action,
                "why": verdict.why,
                "rule": found,
                "always": list(proposals(request)),
                "parts": shown,
            }
        )
        return exits.OK
    sys.stdout.write(f"{verdict.action}: {verdict.why}\n")
    if verdict.action == "ask":
        offered = proposals(request)
        means = f"`always` would add: allow {offered[0]}" if offered else "`always` would not be remembered"
        sys.stdout.write(f"{means}\n")
    for part in parts:
        programs = ", ".join(f"{name} ({kind or 'not known'})" for name, kind in part.programs)
        stated = [programs, part.unknown]
        for about, concern in part.rules:
            stated.append(f"{about.action} {about.text} {'concerns' if concern == 'yes' else 'may concern'} it")
        sys.stdout.write(one_line(f"  {part.words}: {'; '.join(filter(None, stated))}") + "\n")
    return exits.OK


def _request(call: CliCall, project: str, folder: str) -> Request:
    from dragoman.policy import KINDS, Command, Request
    from dragoman.policy.request import PATH_KINDS

    kind, words = call.given.rule, call.program or ()
    if kind not in KINDS:
        raise exits.CliError(
            f"rules explain needs a kind of request: {', '.join(KINDS)}",
            hint="dragoman rules explain execute -- npm test",
        )
    given: dict[str, Any] = {}
    if kind == "execute" and words:
        # A single word with spaces in it is a shell line, as agents send it.
        given = {"command": Command(line=words[0]) if len(words) == 1 else Command(tuple(words))}
    elif kind in PATH_KINDS:
        given = {"paths": tuple(word if word.startswith("~/") else os.path.join(folder, word) for word in words)}
    elif kind == "fetch" and len(words) == 1:
        given = {"host": words[0]}
    elif kind == "mcp" and len(words) == 2:
        kind, given = "other", {"mcp": words}
    elif kind == "tool" and len(words) == 1:
        kind, given = "other", {"tool": words[0], "unreadable": "it names no file and no command"}
    elif words or kind in ("mcp", "tool"):
        raise exits.CliError(f"rules explain {kind}: wrong arguments after --", hint=_SEE_HELP)
    home = os.path.expanduser("~")
    return Request(call.given.agent or "", kind, " ".join(words), root=project, home=home, **given)


def _change(given: Any, project: str, actions: list[str]) -> int:
    from dragoman.settings.rule_file import open_rules

    if given.rule is None:
        raise exits.CliError(f"rules {given.verb} needs a rule", hint="dragoman rules add --allow 'edit:src/**'")
    if len(actions) > 1 or (given.verb == "add" and not actions):
        raise exits.CliError(f"rules {given.verb} {given.rule}: give one of --allow, --deny and --ask", hint=_SEE_HELP)
    file = open_rules()
    scope: KeptScope = "pinned" if given.everywhere else "project"
    where = "every project" if given.everywhere else project
    action: Action | None = actions[0] if actions else None  # type: ignore[assignment]  # one of the three
    if given.verb == "add":
        assert action is not None
        is_new = file.remember(given.rule, action, scope, project)
        done = f"added: {action} {given.rule} for {where}" if is_new else f"{action} {given.rule} exists already"
    else:
        if not file.forget(given.rule, action, scope, project):
            raise exits.CliError(
                f"no rule {given.rule} for {where}",
                hint="dragoman rules list --all shows all rules; see also --everywhere",
            )
        done = f"removed: {given.rule} for {where}"
    if given.json:
        write_json({"rule": given.rule, "action": action, "scope": scope, "file": str(file.path)})
    else:
        sys.stderr.write(f"{done} ({file.path})\n")
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "A permission rule allows a request of an agent, denies it, or makes dragoman ask you.\n"
        "  list     list the rules\n"
        "  explain  show what the rules decide about a request, and why\n"
        "  add      add a rule\n"
        "  remove   remove a rule\n"
        "A rule is [AGENT@]KIND[:PATTERN], such as read, edit:src/**, execute:npm test (exactly these words),\n"
        "execute:npm test * (these words and any others), fetch:example.org, mcp:SERVER:TOOL, tool:NAME or\n"
        "gemini@edit.\n"
        "A deny wins over every allow. You are always asked about changes of protected files (.git, shell start-up\n"
        "files, settings of editors and agents) and about shell lines that cannot be read.\n"
        "A rule applies to one project, or with --everywhere to all projects."
    ),
    arguments=(
        Argument("verb", "what to do", choices=_VERBS),
        Argument("rule", "the rule to add or remove, or the kind of request to explain", is_optional=True),
    ),
    options=(
        CliOption("--allow", "add or remove a rule that allows"),
        CliOption("--deny", "add or remove a rule that denies"),
        CliOption("--ask", "add or remove a rule that asks, even if another rule allows"),
        CliOption("--everywhere", "the rule applies to every project"),
        CliOption("--project", "a folder of the project (default: the current folder)", value="DIR"),
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
