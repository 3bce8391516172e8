"""`dragoman agents list` and `show`: which agents there are, and what is known about one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.agents.paths import cache, here, needed, shown_command, shown_path, tell_notes
from dragoman.cli.console import write_json, write_table
from dragoman.text.terminal import clip, one_line

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import AgentEntry, Agents
    from dragoman.registry.catalogue import Catalogue, Listed

_DESCRIPTION_COLUMNS = 60
_COMMAND_COLUMNS = 70


def list_agents(call: CliCall) -> int:
    if call.given.registry:
        return _list_registry(as_json=call.given.json)
    agents = here()
    entries = agents.entries()
    if call.given.json:
        write_json([document(entry, agents) for entry in entries])
    else:
        write_table(
            ("NAME", "FROM", "STATE", "COMMAND"),
            [
                (one_line(entry.name), entry.source, _state(entry, agents), clip(_command(entry), _COMMAND_COLUMNS))
                for entry in entries
            ],
        )
    tell_notes(agents)
    return exits.OK


def show_agent(call: CliCall) -> int:
    name = needed(call.given.name, "show", "dragoman agents show gemini")
    agents = here()
    entry = agents.look_up(name)
    listed = _listed(name)
    if entry is None and listed is None:
        agents.find(name)  # says what there is instead
    if call.given.json:
        shown = document(entry, agents) if entry is not None else {}
        write_json({**shown, "registry": None if listed is None else _listed_document(listed)})
    else:
        lines = _entry_lines(entry, agents) if entry is not None else []
        lines += _listed_lines(listed) if listed is not None else []
        width = max(len(label) for label, _ in lines)
        sys.stdout.writelines(f"{label:{width}}  {text}\n" for label, text in lines)
    tell_notes(agents)
    return exits.OK


def document(entry: AgentEntry, agents: Agents) -> dict[str, Any]:
    """An agent for programs. Of the environment only the names: values are often secrets."""
    return {
        "name": entry.name,
        "source": entry.source,
        "where": entry.where,
        "command": list(entry.command),
        "env": sorted(entry.env),
        "is_default": agents.default == entry.name,
        "scripted": entry.is_scripted,
        "problem": entry.problem or None,
        "sha256": entry.sha256 or None,
        "quirks": {
            "withhold": sorted(entry.quirks.withhold),
            "spare": list(entry.quirks.spare),
            "missing_file": entry.quirks.missing_file,
            "replays_late": entry.quirks.replays_late,
            "evidence": entry.quirks.evidence or None,
        },
    }


def _state(entry: AgentEntry, agents: Agents) -> str:
    if entry.problem:
        return "not accepted" if entry.source == "project" else "not installed"
    return "default" if agents.default == entry.name else "ready"


def _command(entry: AgentEntry) -> str:
    return shown_command(entry.command) if entry.command else "-"


def _entry_lines(entry: AgentEntry, agents: Agents) -> list[tuple[str, str]]:
    quirks = entry.quirks
    lines = [
        ("name", one_line(entry.name)),
        ("from", f"{entry.source} ({shown_path(entry.where)})"),
        ("state", _state(entry, agents)),
        ("command", _command(entry)),
    ]
    if entry.env:
        lines.append(("environment", one_line(", ".join(sorted(entry.env)))))
    lines += [("quirk", f"does not offer {name}") for name in sorted(quirks.withhold)]
    lines += [("quirk", f"leaves {one_line(repr(word))} running") for word in quirks.spare]
    if quirks.missing_file == "empty":
        lines.append(("quirk", "a missing file reads as empty"))
    if quirks.replays_late:
        lines.append(("quirk", "replays a loaded session after it says that it is loaded"))
    if quirks.evidence:
        lines.append(("because of", shown_path(quirks.evidence)))
    if entry.sha256:
        lines.append(("sha256", entry.sha256))
    if entry.problem:
        lines.append(("to do", one_line(entry.problem)))
    return lines


def _listed(name: str) -> Listed | None:
    from dragoman.registry.catalogue import cached_catalogue

    catalogue = cached_catalogue(cache())
    return None if catalogue is None else catalogue.agents.get(name)


def _listed_lines(listed: Listed) -> list[tuple[str, str]]:
    lines = [
        ("registry", f"{one_line(listed.name)} {one_line(listed.version)} ({', '.join(listed.kinds)})"),
        ("about", one_line(listed.description)),
        ("license", one_line(listed.license)),
        ("source code", one_line(listed.repository)),
    ]
    return [(label, text) for label, text in lines if text]


def _listed_document(listed: Listed) -> dict[str, Any]:
    return {
        "id": listed.id,
        "name": listed.name,
        "version": listed.version,
        "description": listed.description,
        "license": listed.license or None,
        "repository": listed.repository or None,
        "distributions": list(listed.kinds),
    }


def _list_registry(*, as_json: bool) -> int:
    from dragoman.registry.catalogue import cached_catalogue

    catalogue = cached_catalogue(cache())
    if catalogue is None:
        raise exits.CliError("the registry was not fetched yet", hint="dragoman agents update")
    installed = here().installed.all()
    agents = sorted(catalogue.agents.values(), key=lambda listed: listed.id)
    versions = {id_: entry.version for id_, entry in installed.items()}
    if as_json:
        listing = [{**_listed_document(listed), "installed": versions.get(listed.id)} for listed in agents]
        write_json({"origin": catalogue.origin, "age_seconds": round(catalogue.age_seconds()), "agents": listing})
        return exits.OK
    write_table(
        ("NAME", "VERSION", "INSTALLED", "AS", "WHAT IT IS"),
        [
            (
                listed.id,
                one_line(listed.version),
                versions.get(listed.id, "-"),
                ",".join(listed.kinds),
                clip(one_line(listed.description), _DESCRIPTION_COLUMNS),
            )
            for listed in agents
        ],
    )
    _tell_age(catalogue)
    return exits.OK


def _tell_age(catalogue: Catalogue) -> None:
    from dragoman.cli.agents.paths import say
    from dragoman.text.terminal import duration

    old = "" if catalogue.is_fresh else "; dragoman agents update gets a new one"
    say(f"the registry is of {catalogue.origin}, {duration(catalogue.age_seconds())} old{old}")
    if catalogue.skipped:
        say(f"note: {len(catalogue.skipped)} of its entries were not understood: {'; '.join(catalogue.skipped[:3])}")
