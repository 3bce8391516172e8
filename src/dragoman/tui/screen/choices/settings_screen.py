"""The settings of this client: every value, where it comes from, and changing it in the user's file.

Enter writes the next value and `r` removes it from the file, in which comments and order stay as they are.
Remembered options of agents are shown as well, and can be forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dragoman.errors import ConfigError
from dragoman.settings.edit import edit_settings
from dragoman.settings.file import UiMembers, read_settings_file, user_file
from dragoman.settings.places import config_dir
from dragoman.settings.ui import UI_SETTINGS
from dragoman.text.terminal import clip, fit
from dragoman.text.visible import label
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.frame import short_folder
from dragoman.tui.screen.keys.actions import ACTIONS, shown_key
from dragoman.tui.screen.keys.keymap import Keymap
from dragoman.tui.screen.picker import Picker, PickRow
from dragoman.tui.screen.strips import use_ascii
from dragoman.tui.screen.themes import use_theme
from dragoman.view.rails import ASCII, UNICODE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dragoman.settings.ui import UiSetting
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine


class SettingRow(NamedTuple):
    """What a row of the screen changes."""

    setting: UiSetting | None = None
    agent: str = ""
    option: str = ""
    action: str = ""


class SettingsScreen(Picker):
    """All settings of the client."""

    def __init__(self, app: TerminalApp) -> None:
        self._app = app
        self._path = user_file(config_dir())
        super().__init__(
            "settings",
            self._made_rows(),
            right=short_folder(str(self._path), 60),
            footer="type: filter · Enter next value · Ctrl+R default, or forget · Esc back",
            glyphs=app.glyphs,
            commands={"ctrl+r": self._reset},
            choose=self._change,
        )

    # Changing

    def _change(self, row: SettingRow) -> None:
        if row.setting is None:
            self.problem = (
                f'{row.action}: write "ui": {{"keys": {{"{row.action}": ["ctrl+x"]}}}} in the file above'
                if row.action
                else "Ctrl+R forgets it"
            )
            return
        values = row.setting.values
        current = getattr(self._members(), row.setting.name)
        self._write(row.setting, values[(values.index(current) + 1) % len(values)] if current in values else values[0])

    def _reset(self, row: SettingRow | None) -> None:
        if row is None:
            return
        if row.setting is not None:
            self._write(row.setting, row.setting.values[0])
        elif row.agent and self._app.preferences is not None:
            try:
                self._app.preferences.forget(row.agent, row.option)
            except ConfigError as error:
                self._report(error)
            self._show()
        elif row.action:
            try:
                with edit_settings(self._path) as members:
                    members.get("ui", {}).get("keys", {}).pop(row.action, None)
            except ConfigError as error:
                self._report(error)
            self._show()

    def _write(self, setting: UiSetting, value: Any) -> None:
        try:
            write_setting(self._path, setting, value)
        except ConfigError as error:
            self._report(error)
        self._show()

    def _show(self) -> None:
        use_settings(self._app, self._members())
        self.set_rows(self._made_rows())

    def _members(self) -> UiMembers:
        try:
            return read_settings_file(self._path, "user").ui
        except ConfigError as error:
            self._report(error)
            return self._app.ui

    def _report(self, error: ConfigError) -> None:
        self.problem = str(error).replace(str(self._path), self._path.name)  # the whole path is in the first line

    # Showing

    def _made_rows(self) -> list[PickRow]:
        app, members = self._app, self._members()
        width = app.size.width
        rows = [_heading("terminal client (ui)")]
        for setting in UI_SETTINGS:
            value = getattr(members, setting.name)
            source = "default" if value == setting.values[0] else "your file"
            if setting.name in app.overridden:
                source = f"{app.overridden[setting.name]}, this time"
            rows.append(_row(setting.name, _shown(value), source, setting.help, width, SettingRow(setting=setting)))
        rows += [_heading("keys (ui.keys)"), *self._problem_rows(app.keymap.problems)]
        for action in ACTIONS:
            keys = " ".join(map(shown_key, app.keymap.keys(action.name))) or "none"
            source = "your file" if app.keymap.is_changed(action.name) else "default"
            rows.append(_row(action.name, keys, source, action.help, width, SettingRow(action=action.name)))
        remembered = {} if app.preferences is None else app.preferences.all()
        if remembered:
            rows.append(_heading("remembered for agents"))
        for agent, options in remembered.items():
            for option, value in options.items():
                name = f"{label(agent, 12)}: {label(option, 10)}"
                found = SettingRow(agent=agent, option=option)
                rows.append(_row(name, _shown(value), "chosen", "new sessions begin with it", width, found))
        return rows

    def _problem_rows(self, problems: Sequence[str]) -> list[PickRow]:
        return [PickRow(((f"   ! {problem}", "bad"),), is_heading=True) for problem in problems]


def _heading(text: str) -> PickRow:
    return PickRow(((f" {text}", "bold"),), is_heading=True)


def _row(name: str, value: str, source: str, help: str, width: int, chosen: SettingRow) -> PickRow:
    value_width = 12 if width < 100 else 20
    line: RailLine = (
        (fit(name, 15), ""),
        (fit(label(value, 40), value_width), "user"),
        (fit(f" {source}", 11 if width < 100 else 20), "dim"),
        (f" {clip(help, max(4, width - value_width - 31 - (0 if width < 100 else 9)))}", "dim"),
    )
    return PickRow(line, chosen, f"{name} {value} {source} {help}")


def _shown(value: object) -> str:
    if value is None:
        return "auto"
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def write_setting(path: Path, setting: UiSetting, value: Any) -> None:
    """Write a value into the user's file; the default is left out of it. Raises: ConfigError."""
    with edit_settings(path) as members:
        ui = members.setdefault("ui", {})
        if value == setting.values[0]:
            ui.pop(setting.name, None)
            if not ui:
                del members["ui"]
        else:
            ui[setting.name] = value


def choose_theme(app: TerminalApp, argument: str = "") -> None:
    """Use the named theme, or the next one, and remember it in the user's file."""
    setting = next(known for known in UI_SETTINGS if known.name == "theme")
    name = argument.strip().lower()
    if name and name not in setting.values:
        app.note(f"no theme is called {name}; there are {', '.join(map(str, setting.values))}")
        return
    at = setting.values.index(app.ui.theme) if app.ui.theme in setting.values else -1
    chosen = name or str(setting.values[(at + 1) % len(setting.values)])
    use_settings(app, msgspec.structs.replace(app.ui, theme=chosen))
    try:
        write_setting(user_file(config_dir()), setting, chosen)
    except ConfigError as error:
        app.note(f"{chosen} for now, it cannot be remembered: {error}")
        return
    what = "the terminal's own colours" if chosen == "auto" else f"{chosen} colours"
    app.note(f"theme: {what}; /theme {'|'.join(map(str, setting.values))}")


def show_settings(app: TerminalApp, argument: str = "") -> None:
    """Show the settings of this client."""
    app.show_picker(SettingsScreen(app), lambda chosen: None)


def use_settings(app: TerminalApp, ui: UiMembers) -> None:
    """Take over settings that were changed just now; the form of the screen and its paints need a new start."""
    has_other_pictures = (ui.pictures, ui.ascii) != (app.ui.pictures, app.ui.ascii)
    app.ui = ui
    app.keymap = Keymap(ui.keys)
    app.bind_keys()
    app.around.notifier.kind = ui.notifications
    use_theme(app, ui.theme, app.is_light)
    if ui.ascii is not None:
        app.glyphs = ASCII if ui.ascii else UNICODE
        use_ascii(ui.ascii)
    transcript = app.query_one(Transcript)
    if transcript.is_open != (ui.thoughts == "open"):
        transcript.toggle_open()
    if has_other_pictures:
        transcript.choose_pictures()
    app.changed()
