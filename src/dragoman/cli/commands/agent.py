"""`dragoman agent`: the built-in coding agent on stdin and stdout, as an editor starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption

if TYPE_CHECKING:
    from dragoman.builtin.limits import TurnLimits
    from dragoman.builtin.settings import AgentSettings

_LOG_BYTES = 4 * 1024 * 1024  # one log of this size, and the one before it, are kept
_LEVELS = ("debug", "info", "warning", "error")
MODEL_VARIABLE = "DRAGOMAN_MODEL"
TITLE_MODEL_VARIABLE = "DRAGOMAN_TITLE_MODEL"


def run(call: CliCall) -> int:
    from dragoman.cli.startup import load_msgspec

    load_msgspec()
    from dragoman.builtin.settings import AgentSettings
    from dragoman.settings.places import config_dir, data_dir, state_dir

    given = call.given
    if given.json and given.action != "doctor":
        raise exits.CliError("--json is for dragoman agent doctor", hint="leave it out; stdout is used by the protocol")
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
        return _examine(settings, as_json=given.json)
    from dragoman.builtin.agent import build_agent

    _note_if_scripted(settings.model)
    build_agent(settings).run()
    return exits.OK


def _examine(settings: AgentSettings, *, as_json: bool) -> int:
    """Show what the built-in agent lacks, and how to get it."""
    from dragoman.builtin.doctor import examine_agent
    from dragoman.cli.agents.doctor import write_findings
    from dragoman.cli.console import write_json

    findings = examine_agent(settings, Path.cwd(), os.environ)
    is_ready = all(finding.state != "missing" for finding in findings)
    if as_json:
        write_json({"ready": is_ready, "findings": findings})
    else:
        write_findings(findings)
        sys.stdout.write("it can work here\n" if is_ready else "it cannot work here yet: something is missing\n")
    return exits.OK if is_ready else exits.USAGE


def _written(folder: Path) -> dict[str, str]:
    """Read the model and mode of the user's settings; without settings, nothing is imported. Raises: ConfigError."""
    if not (folder / "settings.json").exists():
        return {}
    from dragoman.builtin.modes import MODES
    from dragoman.errors import ConfigError
    from dragoman.settings import load_settings

    settings = load_settings(folder)
    if settings.mode and settings.mode not in MODES:
        raise ConfigError(f"{settings.user.path}: there is no mode {settings.mode!r}; there are {', '.join(MODES)}")
    found = {"model": settings.model, "title_model": settings.title_model, "mode": settings.mode}
    return {name: value for name, value in found.items() if value}


def _note_if_scripted(model: str | None) -> None:
    if model is not None and model.partition(":")[0] in ("scripted", "cassette"):
        sys.stderr.write(f"dragoman agent: the model is scripted ({model}): it plays a script and calls no service\n")


def _log_to(path: Path, level: str) -> None:
    """Log to a file: stdout is used by the protocol, and editors show stderr to the user."""
    import logging

    from dragoman.text.secrets import Secrets

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
        handler: logging.Handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise exits.CliError(
            f"the log {path} cannot be written: {error.strerror}", hint="choose another file with --log"
        ) from error

    class WithoutKeys(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return Secrets(os.environ).mask(super().format(record))

    handler.setFormatter(WithoutKeys("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)  # warnings of a provider's package go to the log, too


def _limits(given: Any) -> TurnLimits:
    from dragoman.builtin.limits import TurnLimits

    turn_tokens = _number("--max-turn-tokens", given.max_turn_tokens)
    session_tokens = _number("--max-session-tokens", given.max_session_tokens)
    return TurnLimits(
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
        raise exits.CliError(f"{option} must be a number above 0, not {text!r}", hint="see dragoman agent --help")
    return number


COMMAND = CliCommand(
    run=run,
    description=(
        "Runs the built-in coding agent on stdin and stdout, as an editor starts it, until the editor disconnects.\n"
        "Sessions are stored and can be opened again. Its mode and your rules (dragoman rules) decide what it may do\n"
        "without asking. docs/agent.md has the details, docs/editors.md the settings for editors.\n"
        "  doctor   show what is missing for the agent to work here, and how to get it"
    ),
    arguments=(Argument("action", "what to do instead of serving an editor", choices=("doctor",), is_optional=True),),
    options=(
        CliOption(
            "--model", f"the model to use (default: ${MODEL_VARIABLE}, then `model` of the settings)", value="MODEL"
        ),
        CliOption(
            "--mode",
            "how much it may do without asking in new sessions (default: ask)",
            value="MODE",
            choices=("ask", "edit", "plan", "full"),
        ),
        CliOption("--store", "the file that stores its sessions", value="FILE"),
        CliOption("--no-client-fs", "read and write files directly, not through the editor"),
        CliOption("--no-client-terminal", "run commands directly, not in the editor's terminal"),
        CliOption(
            "--title-model",
            f"a small model for session titles (default: ${TITLE_MODEL_VARIABLE})",
            value="MODEL",
        ),
        CliOption("--unstable", "offer unstable methods of the protocol: session/fork, session/set_title"),
        CliOption("--max-turn-cost", "end a turn when it has cost this much", value="USD"),
        CliOption("--max-session-cost", "end every turn when the session has cost this much", value="USD"),
        CliOption("--max-turn-tokens", "end a turn when its model has written this many tokens", value="NUMBER"),
        CliOption(
            "--max-session-tokens",
            "end every turn when the session has written this many tokens",
            value="NUMBER",
        ),
        CliOption("--log", "the file to log to", value="FILE"),
        CliOption("--log-level", "how much to log (default: warning)", value="LEVEL", choices=_LEVELS),
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
