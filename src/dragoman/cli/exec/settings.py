"""`--mode`, `--model` and `--set`: the user's words matched with what a session offers.

Agents name the same thing in several places: modes as such or as an option of category `mode`, models as an option or
in the way of an older draft. Owns the matching and the sentence that says what there is instead; changes nothing but
through the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dragoman.cli.exits import Failure
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dragoman.cli.exec.options import Options
    from dragoman.client import Session
    from dragoman.client.legacy_models import LegacyModels


class Choice(NamedTuple):
    """A value a session offers, and what it calls it."""

    value: str
    name: str


async def apply_settings(session: Session, options: Options, models: LegacyModels | None) -> None:
    """Sets what the user asked for. The model goes first: with it the other options change.

    Raises:
        Failure: the session does not offer it.
    """
    if options.model is not None:
        await _set_model(session, options.model, models)
    if options.mode is not None:
        await _set_mode(session, options.mode)
    for key, value in options.settings:
        await _set_option(session, key, value)


async def _set_mode(session: Session, wanted: str) -> None:
    option = _of_category(session, "mode")  # where there are both, options count and modes are for older clients
    if option is not None:
        value = _match("--mode", wanted, _choices(option))
        if value != option.current_value:
            await session.set_config_option(option.id, value)
        return
    modes = session.state.modes
    if modes is None:
        raise Failure(f"--mode {wanted}: this agent has no modes", hint="leave --mode out")
    value = _match("--mode", wanted, [Choice(mode.id, mode.name) for mode in modes.available_modes])
    if value != session.state.mode:
        await session.set_mode(value)


async def _set_model(session: Session, wanted: str, models: LegacyModels | None) -> None:
    option = _of_category(session, "model")
    if option is not None:
        await session.set_config_option(option.id, _match("--model", wanted, _choices(option)))
    elif models is not None and models.offered:
        choices = [Choice(model.model_id, model.name) for model in models.offered]
        await session.set_model(_match("--model", wanted, choices))
    else:
        raise Failure(
            f"--model {wanted}: this agent offers no choice of model",
            hint="set the model in the agent's own configuration",
        )


async def _set_option(session: Session, key: str, text: str) -> None:
    options = session.state.config_options
    option = next((each for each in options if getattr(each, "id", None) == key), None)
    if isinstance(option, v1.SessionConfigBoolean):
        if text not in ("true", "false"):
            raise Failure(f"--set {key}={text}: it takes true or false", hint=f"--set {key}=true")
        await session.set_config_option(key, text == "true")
    elif isinstance(option, v1.SessionConfigSelect):
        await session.set_config_option(key, _match(f"--set {key}", text, _choices(option)))
    else:
        known = ", ".join(str(getattr(each, "id", "?")) for each in options) or "none"
        raise Failure(f"--set {key}: this agent has no such option", hint=f"its options: {known}")


def _of_category(session: Session, category: str) -> v1.SessionConfigSelect | None:
    """The select option that holds the mode or the model; one real agent has two of category `model`."""
    found = [
        option
        for option in session.state.config_options
        if isinstance(option, v1.SessionConfigSelect) and option.category == category
    ]
    return next((option for option in found if option.id == category), found[0] if found else None)


def _choices(option: v1.SessionConfigSelect) -> list[Choice]:
    return list(_flat(option.options))


def _flat(options: Sequence[object]) -> Iterable[Choice]:
    for entry in options:
        if isinstance(entry, v1.SessionConfigSelectGroup):
            yield from _flat(entry.options)
        elif isinstance(entry, v1.SessionConfigSelectOption):
            yield Choice(entry.value, entry.name)


def _match(flag: str, wanted: str, choices: Sequence[Choice]) -> str:
    """The value meant: itself, else its name in any case, else the end of one that is a URL."""
    spellings: tuple[Callable[[Choice], bool], ...] = (
        lambda choice: choice.value == wanted,
        lambda choice: choice.name.lower() == wanted.lower(),
        lambda choice: "://" in choice.value and choice.value.rpartition("#")[2] == wanted,
    )
    for is_meant in spellings:
        found = [choice.value for choice in choices if is_meant(choice)]
        if len(found) == 1:
            return found[0]
    known = ", ".join(choice.value for choice in choices) or "none"
    raise Failure(f"{flag} {wanted}: this agent does not offer it", hint=f"it offers: {known}")
