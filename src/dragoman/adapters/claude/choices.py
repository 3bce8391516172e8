"""What the user can choose for a session of Claude: the mode, the model, and how much it thinks.

Owns the settings and what they were set to. The program says at its start which models there are. Pure.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from dragoman.adapters.values import Setting, SettingValue

MODE: Final = "mode"
MODEL: Final = "model"
EFFORT: Final = "effort"
_MODES: Final = {
    "default": ("Ask", "Asks before it edits files or runs commands"),
    "acceptEdits": ("Accept edits", "Edits files without asking, asks before it runs commands"),
    "plan": ("Plan", "Reads and plans; changes nothing"),
    "dontAsk": ("Do not ask", "Refuses what is not allowed by a rule"),
    "auto": ("Auto", "Decides itself which calls are safe"),
}


class ClaudeChoices:
    """The settings of one session."""

    def __init__(self, started: dict[str, Any], effective: dict[str, Any]) -> None:
        """Read what the program answered to `initialize` and to `get_settings`."""
        models = started.get("models")
        self._models = [model for model in models if _is_model(model)] if isinstance(models, list) else []
        self.mode = str(started.get("current_permission_mode") or "default")
        applied = effective.get("applied")
        applied = applied if isinstance(applied, dict) else {}
        chosen = effective.get("effective")
        chosen = chosen.get("model") if isinstance(chosen, dict) else None
        self.model = self._value_of(chosen or applied.get("model"))
        self.effort = applied.get("effort") if isinstance(applied.get("effort"), str) else None

    def settings(self) -> list[Setting]:
        """Return the settings as they are offered."""
        known = self._chosen_model()
        offered = [mode for mode in _MODES if mode != "auto" or known.get("supportsAutoMode") is True]
        if self.mode not in offered:
            offered.append(self.mode)
        modes = tuple(SettingValue(mode, *_MODES.get(mode, (mode,))) for mode in offered)
        settings = [Setting(MODE, "Mode", self.mode, modes, "mode")]
        if self.model is not None:
            settings.append(Setting(MODEL, "Model", self.model, self._model_values(), "model"))
        levels = known.get("supportedEffortLevels")
        if self.effort is not None and isinstance(levels, list) and self.effort in levels:
            values = tuple(SettingValue(str(level), str(level).capitalize()) for level in levels)
            settings.append(Setting(EFFORT, "Effort", self.effort, values, "thought_level"))
        return settings

    def note_model(self, resolved: Any) -> str | None:
        """Return the program reports the model it uses: the setting it changes to, None if it is the current one."""
        if not isinstance(resolved, str) or _bare(resolved) in (_bare(self.model), _bare(self._resolved())):
            return None
        self.model = self._value_of(resolved)
        return self.model

    def _resolved(self) -> Any:
        return self._chosen_model().get("resolvedModel")

    def _chosen_model(self) -> dict[str, Any]:
        return next((model for model in self._models if model["value"] == self.model), {})

    def _value_of(self, model: Any) -> str | None:
        """Return the value that stands for a model; the model itself if it is not among those that can be chosen."""
        if not isinstance(model, str) or not model:
            return str(self._models[0]["value"]) if self._models else None
        for name in ("value", "resolvedModel"):
            for row in self._models:
                if _bare(row.get(name)) == _bare(model):
                    return str(row["value"])
        return model

    def _model_values(self) -> tuple[SettingValue, ...]:
        values = [
            SettingValue(
                model["value"], str(model.get("displayName") or model["value"]), model.get("description") or UNSET
            )
            for model in self._models
        ]
        if self.model is not None and all(value.id != self.model for value in values):
            values.append(SettingValue(self.model, self.model))
        return tuple(values)


def commands_of(started: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the slash commands that the program offers."""
    listed = started.get("commands")
    return tuple(
        (entry["name"], str(entry.get("description") or entry["name"]))
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]
    )


def _bare(model: Any) -> str:
    """Return the name of a model without the size of its context window, as in `opus[1m]`."""
    return str(model).partition("[")[0]


def _is_model(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("value"), str)
