"""What the user confirmed, written.

Nothing that exists is overwritten, and nothing is written outside of its folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError
from dragoman.foreign.proposal import Appended, HookEntry, NewFile, NewMember, NewRule
from dragoman.policy.paths import is_below
from dragoman.settings.documents import write_private, write_shared
from dragoman.settings.edit import edit_settings
from dragoman.settings.rule_file import FILE_NAME, RuleFile

if TYPE_CHECKING:
    from dragoman.foreign.places import Places
    from dragoman.foreign.proposal import Change, Proposal


def write(proposal: Proposal, places: Places, *, with_keys: bool = False) -> None:
    """Make the changes of a proposal.

    Args:
        with_keys: also write keys that were found, which the user has to say.

    Raises:
        ConfigError: something cannot be written, or exists by now.
    """
    for change in proposal.changes:
        try:
            _write(change, places, with_keys=with_keys)
        except OSError as error:
            where = error.filename or getattr(change, "path", "")
            raise ConfigError(f"{where}: cannot be written: {error.strerror or error}") from error


def appended_text(change: Appended) -> tuple[str, str]:
    """Return the text of the file before and after. Raises: ConfigError."""
    try:
        before = change.path.read_text("utf-8") if change.path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{change.path}: cannot be read: {error}; nothing is added to it") from error
    return before, f"{before.rstrip()}\n\n{change.text}".lstrip()


def _write(change: Change, places: Places, *, with_keys: bool) -> None:
    match change:
        case NewFile(path, content):
            _check_place(path, places)
            if os.path.lexists(path):
                raise ConfigError(f"{path}: exists by now, and is not overwritten")
            _replace(path, content, places)
        case Appended(path):
            _check_place(path, places)
            _replace(path, appended_text(change)[1].encode(), places)
        case NewMember(path, keys, value, stored):
            _check_place(path, places)
            with edit_settings(path, is_shared=places.scope == "project") as settings:
                _set(settings, path, keys, stored if with_keys and stored is not None else value)
        case HookEntry(path, event, entry):
            _check_place(path, places)
            with edit_settings(path, is_shared=places.scope == "project") as settings:
                entries = settings.setdefault("hooks", {}).setdefault(event, [])
                if entry not in entries:
                    entries.append(entry)
        case NewRule():
            _add_rule(change, places)


def _check_place(path: Path, places: Places) -> None:
    """Refuse a place that is a link: a project may hold one where a folder is expected. Raises: ConfigError."""
    if places.scope == "user":
        return  # the user's own folders may be links to any place
    real, root = os.path.realpath(path), os.path.realpath(places.project)
    if not is_below(real, root):
        raise ConfigError(f"{path}: leads out of the project by a link; nothing is written there")


def _replace(path: Path, content: bytes, places: Places) -> None:
    (write_private if places.scope == "user" else write_shared)(path, content)


def _set(settings: dict[str, Any], path: Path, keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        settings = settings.setdefault(key, {})
        if not isinstance(settings, dict):
            raise ConfigError(f"{path}: {key} must be an object")
    if keys[-1] in settings:
        raise ConfigError(f"{path}: {'.'.join(keys)} exists by now, and is not overwritten")
    settings[keys[-1]] = value


def _add_rule(change: NewRule, places: Places) -> None:
    if change.path is not None:
        _check_place(change.path, places)
        with edit_settings(change.path, is_shared=places.scope == "project") as settings:
            rules = settings.setdefault("rules", {}).setdefault(change.action, [])
            if change.text not in rules:
                rules.append(change.text)
        return
    file = RuleFile(places.config_dir / FILE_NAME)
    # The file keeps one action for a rule: an import must not replace a deny of the user's.
    if any(rule.text == change.text and rule.action != change.action for rule in file.rules(change.project)):
        raise ConfigError(f"{file.path}: a rule {change.text} exists by now, and is not overwritten")
    file.remember(change.text, change.action, "pinned" if change.project is None else "project", change.project)
