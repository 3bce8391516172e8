"""The rules of a guard: those of the command line, of the rule file and of the settings, for each project.

They are read again when one of the files has changed, so that a rule counts at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.exec.rules import remember_rule, remembered_rules
from dragoman.settings import find_project, load_settings
from dragoman.settings.file import project_file, user_file
from dragoman.settings.places import config_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.client.session import Session
    from dragoman.policy import Action, Rule


class ProjectRules:
    """The rules for any folder.

    Args:
        typed: rules of the command line, which count everywhere.
        mode_rules: rules that follow from the mode of a session; None for an agent without such modes.
    """

    def __init__(self, typed: Sequence[Rule], mode_rules: Callable[[Session], Sequence[Rule]] | None = None) -> None:
        self._typed = tuple(typed)
        self._mode_rules = mode_rules
        self._projects: dict[str, str] = {}
        self._known: dict[str, tuple[object, list[Rule]]] = {}

    def project(self, folder: str) -> str:
        """The root of the project that a folder belongs to; the folder itself without one."""
        if folder not in self._projects:
            self._projects[folder] = str(find_project(Path(folder)))
        return self._projects[folder]

    def of(self, folder: str) -> list[Rule]:
        """The rules for a folder. Raises: ConfigError if a file is broken."""
        project = self.project(folder)
        signature = tuple(_signature(path) for path in _files(project))
        known = self._known.get(project)
        if known is None or known[0] != signature:
            found = remembered_rules(project) + load_settings(config_dir(), Path(project)).rules()
            known = self._known[project] = (signature, found)
        return [*self._typed, *known[1]]

    def rules(self, session: Session) -> list[Rule]:
        """The rules for a session. Raises: ConfigError if a file is broken."""
        mode = () if self._mode_rules is None else self._mode_rules(session)
        return [*self.of(session.cwd), *mode]

    def remember(self, project: str, text: str, action: Action) -> None:
        """Add the rule of an answer of "always". Raises: ConfigError if it cannot be kept."""
        remember_rule(project, text, action)


def _files(project: str) -> tuple[Path, ...]:
    return (config_dir() / "rules.json", user_file(config_dir()), project_file(Path(project)))


def _signature(path: Path) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)
