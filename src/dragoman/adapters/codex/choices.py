"""What the user chooses for a thread: mode, model, effort, approval policy and sandbox.

Owns the settings as they are offered, and the parameters of a turn that apply a choice. A mode is a usual pair of
approval policy and sandbox, or Codex's own mode for planning; any other pair is the mode `custom`, which is always
offered because a session cannot get modes later. Values of the user's configuration that are none of the usual ones
are offered as they are. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, structs

from dragoman.adapters.values import AdapterError, Setting, SettingValue

if TYPE_CHECKING:
    from collections.abc import Sequence

MODE: Final = "mode"
MODEL: Final = "model"
EFFORT: Final = "effort"
ASKING: Final = "approval_policy"
SANDBOX: Final = "sandbox_mode"
_PLAN: Final = "plan"
_OWN: Final = "custom"

# Mode -> approval policy and sandbox.
_PAIRS: Final = {
    "read-only": ("on-request", "read-only"),
    "auto": ("on-request", "workspace-write"),
    "full-access": ("never", "danger-full-access"),
}
_MODES: Final = {
    "read-only": ("Read only", "Codex reads files; it asks before it changes any, or runs a command that may"),
    "auto": ("Auto", "Codex works inside the folder; it asks before it leaves it or uses the network"),
    "full-access": ("Full access", "Codex does everything without asking and without a sandbox"),
    _PLAN: ("Plan", "Codex asks questions and writes a plan; it changes nothing"),
    _OWN: ("Custom", "Approval policy and sandbox of your configuration, or as you choose them below"),
}
_ASKING: Final = {
    "untrusted": ("Ask", "Codex asks for every command that is not known to be harmless"),
    "on-request": ("Ask when needed", "Codex asks for what its sandbox does not allow"),
    "never": ("Never ask", "What the sandbox does not allow fails"),
}
_SANDBOXES: Final = {
    "read-only": ("Read only", "Commands read files and change nothing"),
    "workspace-write": ("Workspace", "Commands write inside the folder, without network"),
    "danger-full-access": ("No sandbox", "Commands may do what you may do"),
}
_POLICIES: Final[dict[str, dict[str, Any]]] = {
    "read-only": {"type": "readOnly", "networkAccess": False},
    "workspace-write": {
        "type": "workspaceWrite",
        "writableRoots": [],
        "networkAccess": False,
        "excludeTmpdirEnvVar": False,
        "excludeSlashTmp": False,
    },
    "danger-full-access": {"type": "dangerFullAccess"},
}
_SANDBOX_IDS: Final = {
    "readOnly": "read-only",
    "workspaceWrite": "workspace-write",
    "dangerFullAccess": "danger-full-access",
}


class Effort(Struct, frozen=True):
    id: str
    description: str = ""


class CodexModel(Struct, frozen=True):
    """A model that Codex lists."""

    id: str
    name: str
    description: str = ""
    efforts: tuple[Effort, ...] = ()
    default_effort: str | None = None


class Choices(Struct, frozen=True):
    """What a thread works with."""

    model: str = ""
    effort: str | None = None
    asking: Any = None
    sandbox: Any = None
    is_planning: bool = False
    is_custom: bool = False
    """The user chose the mode `custom`, whatever the pair is."""


def models_of(result: Any) -> tuple[CodexModel, ...]:
    """Return the models of an answer to `model/list`; what is not as expected is left out."""
    rows = result.get("data") if isinstance(result, dict) else None
    found: list[CodexModel] = []
    for row in rows if isinstance(rows, list) else ():
        name = row.get("model") if isinstance(row, dict) else None
        if not isinstance(name, str) or row.get("hidden") is True:
            continue
        efforts = [
            Effort(effort["reasoningEffort"], str(effort.get("description") or ""))
            for effort in row.get("supportedReasoningEfforts") or ()
            if isinstance(effort, dict) and isinstance(effort.get("reasoningEffort"), str)
        ]
        found.append(
            CodexModel(
                name,
                str(row.get("displayName") or name),
                str(row.get("description") or ""),
                tuple(efforts),
                row.get("defaultReasoningEffort"),
            )
        )
    return tuple(found)


def choices_of(result: dict[str, Any]) -> Choices:
    """Return what a thread works with: an answer to `thread/start`, `resume` or `fork`, or thread settings."""
    planning = result.get("collaborationMode")
    return Choices(
        str(result.get("model") or ""),
        result.get("reasoningEffort", result.get("effort")),
        result.get("approvalPolicy"),
        result.get("sandbox", result.get("sandboxPolicy")),
        isinstance(planning, dict) and planning.get("mode") == _PLAN,
    )


def settings_of(choices: Choices, models: Sequence[CodexModel]) -> tuple[Setting, ...]:
    """Return the settings to offer."""
    mode, asking, sandbox = _mode(choices), _asking_id(choices), _sandbox_id(choices)
    modes = tuple(SettingValue(id, *shown) for id, shown in _MODES.items())
    settings = [Setting(MODE, "Mode", mode, modes, "mode")]
    listed = [SettingValue(model.id, model.name, model.description or UNSET) for model in models]
    if choices.model and all(model.id != choices.model for model in models):
        listed.append(SettingValue(choices.model, choices.model))
    if choices.model:
        settings.append(Setting(MODEL, "Model", choices.model, tuple(listed), "model"))
    settings += _effort_settings(choices, models)
    settings.append(Setting(ASKING, "Approval policy", asking, _values(_ASKING, asking)))
    settings.append(Setting(SANDBOX, "Sandbox", sandbox, _values(_SANDBOXES, sandbox)))
    return tuple(settings)


def chosen(
    choices: Choices, models: Sequence[CodexModel], setting_id: str, value: str | bool, configured: Choices
) -> Choices:
    """Return the choices with another value. The mode `custom` goes back to `configured`. Raises: AdapterError."""
    offered = next((setting for setting in settings_of(choices, models) if setting.id == setting_id), None)
    if offered is None or not isinstance(value, str) or all(offer.id != value for offer in offered.values):
        raise AdapterError(f"{value!r} is not a value of {setting_id!r}")
    if value == offered.current:
        return choices
    if setting_id == MODEL:
        model = next((model for model in models if model.id == value), None)
        keeps = model is None or any(effort.id == choices.effort for effort in model.efforts)
        return structs.replace(choices, model=value, effort=choices.effort if keeps else None)
    if setting_id == EFFORT:
        return structs.replace(choices, effort=value)
    if setting_id == ASKING:
        return structs.replace(choices, asking=value, is_custom=False)
    if setting_id == SANDBOX:
        return structs.replace(choices, sandbox=_POLICIES[value], is_custom=False)
    if value == _PLAN:
        return structs.replace(choices, is_planning=True, is_custom=False)
    if value == _OWN:
        own = structs.replace(choices, asking=configured.asking, sandbox=configured.sandbox)
        return structs.replace(own, is_planning=False, is_custom=True)
    asking, sandbox = _PAIRS[value]
    # A policy of the same kind is kept: the user's configuration may allow more folders, or the network.
    policy = choices.sandbox if _sandbox_id(choices) == sandbox else _POLICIES[sandbox]
    return structs.replace(choices, asking=asking, sandbox=policy, is_planning=False, is_custom=False)


def turn_params(wanted: Choices, current: Choices) -> dict[str, Any]:
    """Return the parameters of a turn that bring a thread from what it works with to what is wanted."""
    params: dict[str, Any] = {}
    if wanted.model != current.model:
        params["model"] = wanted.model
    if wanted.effort != current.effort and wanted.effort is not None:
        params["effort"] = wanted.effort
    if wanted.asking != current.asking:
        params["approvalPolicy"] = wanted.asking
    if wanted.sandbox != current.sandbox:
        params["sandboxPolicy"] = wanted.sandbox
    if wanted.is_planning != current.is_planning or (wanted.is_planning and ("model" in params or "effort" in params)):
        mode = _PLAN if wanted.is_planning else "default"
        settings = {"model": wanted.model, "reasoning_effort": wanted.effort, "developer_instructions": None}
        params["collaborationMode"] = {"mode": mode, "settings": settings}
    return params


def _effort_settings(choices: Choices, models: Sequence[CodexModel]) -> list[Setting]:
    model = next((model for model in models if model.id == choices.model), None)
    current = choices.effort or (model.default_effort if model is not None else None)
    if current is None:
        return []
    values = [
        SettingValue(effort.id, effort.id.capitalize(), effort.description or UNSET)
        for effort in (model.efforts if model else ())
    ]
    if all(value.id != current for value in values):
        values.append(SettingValue(current, current.capitalize()))
    return [Setting(EFFORT, "Reasoning effort", current, tuple(values), "thought_level")]


def _mode(choices: Choices) -> str:
    if choices.is_planning:
        return _PLAN
    if choices.is_custom:
        return _OWN
    pair = (choices.asking, _sandbox_id(choices))
    return next((mode for mode, known in _PAIRS.items() if known == pair), _OWN)


def _asking_id(choices: Choices) -> str:
    return choices.asking if isinstance(choices.asking, str) else _OWN


def _sandbox_id(choices: Choices) -> str:
    kind = choices.sandbox.get("type") if isinstance(choices.sandbox, dict) else choices.sandbox
    return _SANDBOX_IDS.get(str(kind), str(kind) if isinstance(kind, str) else _OWN)


def _values(shown_values: dict[str, tuple[str, str]], current: str) -> tuple[SettingValue, ...]:
    values = [SettingValue(id, *shown) for id, shown in shown_values.items()]
    if current not in shown_values:
        values.append(SettingValue(current, "As configured" if current == _OWN else current))
    return tuple(values)
