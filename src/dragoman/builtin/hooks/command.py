"""`/hooks`: the commands that run at moments of a turn, whose each is, and those that a project only proposes.

Loaded when the command is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import ConfigError
from dragoman.settings.hooks import MOMENTS
from dragoman.text.visible import label

if TYPE_CHECKING:
    from dragoman.builtin.session import OpenSession
    from dragoman.settings.hooks import EditCommand, Hook

_COLUMNS = 200


async def show_hooks(arguments: str, session: OpenSession) -> str:
    """List the hooks for work in the folder of the client that asks."""
    viewer = session.viewer
    try:
        settings = session.rules.settings_of(session.row.cwd if viewer is None else viewer.cwd)
        hooks, edits, proposed = settings.hooks(), settings.edit_commands(), settings.proposed_hooks()
    except ConfigError as error:
        return f"No hook runs, because the settings cannot be read: {error}"
    lines = [_described(hook, "yours" if owner == "user" else "the project's, accepted") for hook, owner in hooks]
    lines += [_described_edit(edit) for edit in edits]
    lines = lines or ["There are no hooks."]
    if proposed:
        lines += ["", "Proposed by the project, and not run before you accept them:"]
        lines += [f"{_named(hook)}; `dragoman agents accept --hook {name}`" for name, hook in proposed.items()]
    path = session.settings.config_dir / "settings.json"
    return "\n".join([*lines, "", f"Hooks are members of `hooks` in {path}. The moments are {', '.join(MOMENTS)}."])


def _described(hook: Hook, whose: str) -> str:
    return f"{_named(hook)} ({whose}, at most {hook.timeout_seconds:g} s)"


def _named(hook: Hook | EditCommand) -> str:
    from dragoman.settings.hooks import Hook

    if not isinstance(hook, Hook):
        return _described_edit(hook)
    concerns = f" for `{label(hook.matcher, _COLUMNS)}`" if hook.matcher else ""
    return f"- `{hook.event or hook.moment}`{concerns}: `{label(hook.command, _COLUMNS)}`"


def _described_edit(command: EditCommand) -> str:
    work = ", ".join(f"{what} `{label(line, _COLUMNS)}`" for what, line in _work(command))
    return f"- after an edit of `{label(command.files, _COLUMNS)}`: {work}"


def _work(command: EditCommand) -> list[tuple[str, str]]:
    return [(what, line) for what, line in (("format", command.format), ("check", command.check)) if line]
