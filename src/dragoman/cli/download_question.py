"""The question whether a well-known agent that is not installed may be downloaded and run.

It is asked once for each agent and version, at the terminal, and the answer is stored. Without a terminal nothing is
downloaded unless the command line has `--yes`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dragoman.cli.agents.display import shown_command
from dragoman.cli.exits import CliError

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry, Agents


def confirm_download(agents: Agents, entry: AgentEntry, *, is_sure: bool) -> AgentEntry:
    """Return the agent ready to start, if the user confirms its download.

    Raises:
        CliError: the user does not confirm it, or cannot be asked.
    """
    from dragoman.cli.prompt.keyboard import TERMINAL, can_read

    if is_sure:
        return agents.confirm(entry, is_stored=False)
    if not sys.stderr.isatty() or not can_read(TERMINAL):
        raise CliError(
            f"{entry.name} is not installed, and no user can be asked whether to download {entry.package} and run it: "
            f"{shown_command(entry.command)}",
            hint=f"use --yes with dragoman exec, or confirm it once with: dragoman agents accept {entry.name} --yes",
        )
    sys.stderr.write(f"{entry.name} is not installed. This downloads {entry.package} and runs it:\n")
    sys.stderr.write(f"  {shown_command(entry.command)}\nDo that now and in later runs? [y/N] ")
    sys.stderr.flush()
    with open(TERMINAL, encoding="utf-8", errors="replace") as terminal:  # stdin may be the prompt
        answer = terminal.readline().strip().lower()
    if answer not in ("y", "yes"):
        raise CliError(
            f"{entry.name} is not downloaded",
            hint=f"install it yourself, or with: dragoman agents install {entry.name}",
        )
    return agents.confirm(entry)


def download_first(entry: AgentEntry) -> None:
    """Download the package of an agent that is about to be started, with progress; nothing happens if it is here.

    Raises:
        ConfigError: the package manager failed; its last lines were written.
    """
    from dragoman.cli.agents.install import InstallDisplay
    from dragoman.registry.packages import download
    from dragoman.settings.places import data_dir

    changed = {**os.environ, **entry.changed_env(os.environ)}
    environment = {name: value for name, value in changed.items() if value is not None}
    with InstallDisplay() as display:
        download(
            entry.command,
            entry.package,
            data_dir(),
            environment,
            report=display.report,
            progress=display.progress,
        )
