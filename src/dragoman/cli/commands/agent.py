"""`dragoman agent`: the built-in coding agent on stdin and stdout, as an editor starts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, Call, Command, Option

if TYPE_CHECKING:
    from dragoman.builtin.limits import Limits

_LOG_BYTES = 4 * 1024 * 1024  # one log of this size, and the one before it, are kept
_LEVELS = ("debug", "info", "warning", "error")
MODEL_VARIABLE = "DRAGOMAN_MODEL"
TITLE_MODEL_VARIABLE = "DRAGOMAN_TITLE_MODEL"


def run(call: Call) -> int:
    from dragoman.cli.startup import load_msgspec

    load_msgspec()
    from dragoman.builtin.settings import AgentSettings
    from dragoman.store.places import config_dir, data_dir, state_dir

    given = call.given
    if given.json and given.action != "doctor":
        raise exits.Failure("--json is for dragoman agent doctor", hint="leave it out; stdout is the protocol's")
    is_serving = given.action is None
    if is_serving:
        _log_to(Path(given.log) if given.log else state_dir() / "agent.log", given.log_level or "warning")
    written = _written(config_dir())
    settings = AgentSettings(
        model=given.model or os.environ.get(MODEL_VARIABLE) or written.get("model"),
        store=Path(given.store).absolute() if given.store else data_dir() / "sessions.db",
        rules_file=config_dir() / "rules.json",
        mode=given.mode or written.get("mode") or "ask",
        uses_client_files=not given.no_client_fs,
        uses_client_terminals=not given.no_client_terminal,
        limits=_limits(given),
        title_model=given.title_model or os.environ.get(TITLE_MODEL_VARIABLE) or written.get("title_model"),
        unstable=given.unstable,
    )
    if not is_serving:
        from dragoman.cli.agent_doctor import examine

        return examine(settings, as_json=given.json)
    from dragoman.builtin.agent import build_agent

    _say_if_scripted(settings.model)
    build_agent(settings).run()
    return exits.OK


def _written(folder: Path) -> dict[str, str]:
    """What the user's settings say; nothing is loaded for it when there are none. Raises: ConfigError."""
    if not (folder / "settings.json").exists():
        return {}
    from dragoman.builtin.modes import MODES
    from dragoman.errors import ConfigError
    from dragoman.registry import load_settings

    settings = load_settings(folder / "settings.json", "user")
    if settings.mode and settings.mode not in MODES:
        raise ConfigError(f"{settings.path}: there is no mode {settings.mode!r}; there are {', '.join(MODES)}")
    found = {"model": settings.model, "title_model": settings.title_model, "mode": settings.mode}
    return {name: value for name, value in found.items() if value}


def _say_if_scripted(model: str | None) -> None:
    import sys

    if model is not None and model.partition(":")[0] in ("scripted", "cassette"):
        sys.stderr.write(f"dragoman agent: the model is scripted ({model}): it plays a script and calls nobody\n")


def _log_to(path: Path, level: str) -> None:
    """What happens inside goes to a file: stdout is the protocol's, and editors show stderr to people."""
    import logging

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
        handler: logging.Handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise exits.Failure(
            f"the log {path} cannot be written: {error.strerror}", hint="name another with --log"
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)  # what a provider's package warns of is for the log, too


def _limits(given: Any) -> Limits:
    from dragoman.builtin.limits import Limits

    turn_tokens = _number("--max-turn-tokens", given.max_turn_tokens)
    session_tokens = _number("--max-session-tokens", given.max_session_tokens)
    return Limits(
        tokens=None if turn_tokens is None else int(turn_tokens),
        cost_usd=_number("--max-turn-cost", given.max_turn_cost),
        session_tokens=None if session_tokens is None else int(session_tokens),
        session_cost_usd=_number("--max-session-cost", given.max_session_cost),
    )


def _number(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise exits.Failure(f"{option} is a number above 0, not {text!r}", hint="see dragoman agent --help")
    return number


COMMAND = Command(
    run=run,
    description=(
        "Serves the Agent Client Protocol on stdin and stdout until its editor leaves. Sessions are kept in a store\n"
        "of the user's and can be opened again. What it may do without asking is decided by its mode and by the\n"
        "user's rules (dragoman rules). docs/agent.md has the details, docs/editors.md the settings of editors.\n"
        "  doctor   what is missing for it to work here, and how to get it"
    ),
    arguments=(Argument("action", "instead of serving", choices=("doctor",), is_optional=True),),
    options=(
        Option(
            "--model", f"the model to use (default: ${MODEL_VARIABLE}, then `model` of the settings)", value="MODEL"
        ),
        Option(
            "--mode",
            "how much it may do by itself in new sessions (default: ask)",
            value="MODE",
            choices=("ask", "edit", "plan", "full"),
        ),
        Option("--store", "the file that keeps its sessions", value="FILE"),
        Option("--no-client-fs", "use this machine's files, not those the editor offers"),
        Option("--no-client-terminal", "run commands here, not in the editor's terminal"),
        Option("--title-model", f"a small model that names sessions (default: ${TITLE_MODEL_VARIABLE})", value="MODEL"),
        Option("--unstable", "offer what the protocol may still change: session/fork, session/set_title"),
        Option("--max-turn-cost", "end a turn when it has cost so much", value="USD"),
        Option("--max-session-cost", "end every turn when the session has cost so much", value="USD"),
        Option("--max-turn-tokens", "end a turn when its model has written so much", value="NUMBER"),
        Option("--max-session-tokens", "end every turn when the session's model has written so much", value="NUMBER"),
        Option("--log", "the file to log to", value="FILE"),
        Option("--log-level", "how much to log (default: warning)", value="LEVEL", choices=_LEVELS),
        JSON,
    ),
    examples=(
        "dragoman agent --model scripted",
        "dragoman exec 'say hello' -- dragoman agent --model scripted",
        "dragoman agent --model scripted --mode plan --log-level debug --log agent.log",
        "dragoman agent doctor --model anthropic:claude-sonnet-5-5",
        "dragoman agent doctor --json",
    ),
)
