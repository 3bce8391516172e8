"""`dragoman agents install`: installs one version of an agent from the ACP registry.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import shutil
import sys
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.agents.add import make_default
from dragoman.cli.agents.context import load_agents_here, required_name
from dragoman.cli.agents.display import shown_path
from dragoman.cli.console import write_json, write_note
from dragoman.errors import ConfigError
from dragoman.registry.packages import InstallFailed, InstallProgress
from dragoman.text.terminal import clip, one_line

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import Agents
    from dragoman.registry.catalogue import Catalogue, Listed


# Of a log; a terminal is drawn as often as there is something new.
_LINE_SECONDS: Final = 5.0


def install_agent(call: CliCall) -> int:
    from dragoman.registry.install import install, make_plan

    wanted = required_name(call.given.name, "install", "dragoman agents install gemini")
    id_, _, version = wanted.partition("@")
    agents = load_agents_here()
    listed = _listed(agents, id_)
    plan = make_plan(listed, distribution=call.given.distribution, version=version)
    checked = f"sha256 {plan.sha256}" if plan.sha256 else "verified by its package manager"
    write_note(f"{listed.name} {plan.version}: {plan.source} ({checked if plan.is_verified else 'not verified'})")
    with InstallDisplay() as display:
        entry = install(
            plan,
            agents.installed,
            accept_unverified=call.given.without_checksum,
            python=call.given.python or "",
            report=display.report,
            progress=display.progress,
        )
    id_ = listed.id  # an alias was asked for
    if call.given.default:
        make_default(agents, id_)
    place = shown_path(str(agents.installed.root / entry.folder))
    write_note(f"{id_} {entry.version} is installed in {place}; try it with: dragoman agents doctor {id_}")
    if call.given.json:
        command = list(agents.installed.argv(entry))
        write_json({"name": id_, "version": entry.version, "distribution": entry.distribution, "command": command})
    return exits.OK


class InstallDisplay:
    """The progress of an installation on stderr: one line that is drawn again at a terminal, lines elsewhere.

    An installer that fails has its last lines written before the error.
    """

    def __init__(self) -> None:
        self._is_drawn = sys.stderr.isatty()
        self._shown_at = monotonic()
        self._has_line = False

    def __enter__(self) -> InstallDisplay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._erase()
        if isinstance(error, InstallFailed):
            for line in error.output:
                sys.stderr.write(f"  {one_line(line)}\n")
            sys.stderr.flush()

    def report(self, sentence: str) -> None:
        """Write a step."""
        self._erase()
        write_note(sentence)

    def progress(self, progress: InstallProgress) -> None:
        """Show how far it is."""
        done, total = progress.done_bytes, progress.total_bytes
        size = f"{_megabytes(done)} of {_megabytes(total)} ({done * 100 // total} %)" if total else _megabytes(done)
        text = " · ".join(filter(None, (size, one_line(progress.line))))
        if self._is_drawn:
            width = max(20, shutil.get_terminal_size().columns - 3)
            sys.stderr.write(f"\r\x1b[K  {clip(text, width)}")
            sys.stderr.flush()
            self._has_line = True
        elif monotonic() - self._shown_at >= _LINE_SECONDS:
            self._shown_at = monotonic()
            write_note(f"  {text}")

    def _erase(self) -> None:
        if self._has_line:
            self._has_line = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _listed(agents: Agents, id_: str) -> Listed:
    from dragoman.registry.catalogue import bundled, cached_catalogue
    from dragoman.settings.places import cache_dir

    kept = cached_catalogue(cache_dir())
    # A well-known agent needs no registry: its package and version come with dragoman.
    own = None if kept is not None and id_ in kept.agents else bundled(id_)
    if own is not None:
        return own
    catalogue = _recent_catalogue(agents)
    if id_ not in catalogue.agents:
        from dragoman.settings.documents import did_you_mean

        hint = did_you_mean(id_, catalogue.agents) or "dragoman agents list --registry shows its agents"
        raise exits.CliError(f"the registry has no agent {id_!r}", hint=hint)
    return catalogue.agents[id_]


def _recent_catalogue(agents: Agents) -> Catalogue:
    """Return the stored copy of the registry if it is recent, else a new one; if that fails, the old copy."""
    from dragoman.registry.catalogue import ADDRESS, cached_catalogue, refresh_catalogue
    from dragoman.settings.places import cache_dir

    kept = cached_catalogue(cache_dir())
    if kept is not None and kept.is_fresh:
        return kept
    try:
        return refresh_catalogue(cache_dir(), agents.settings.registry or (kept.origin if kept else ADDRESS))
    except ConfigError as error:
        if kept is None:
            raise
        write_note(f"note: an old copy of the registry is used: {error}")
        return kept
