"""`dragoman agent`: the built-in coding agent on stdin and stdout, as an editor starts it."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.suggestions import provider_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.builtin.limits import TurnLimits
    from dragoman.builtin.settings import AgentSettings
    from dragoman.rpc import Observer, Transport

_LONGEST_PATH = 1024  # a longer text is not the name of a file
_LEVELS = ("debug", "info", "warning", "error")
MODEL_VARIABLE = "DRAGOMAN_MODEL"
TITLE_MODEL_VARIABLE = "DRAGOMAN_TITLE_MODEL"


def run(call: CliCall) -> int:
    from dragoman.cli.startup import load_msgspec, shorten_version_lookups

    # Collections while modules are loaded find nothing, and they take a seventh of the time to the first call. About
    # 75,000 objects exist when the first request to a model leaves.
    gc.set_threshold(100_000, 20, 20)
    load_msgspec()
    shorten_version_lookups()
    from dragoman.settings.places import config_dir, state_dir

    given = call.given
    _check_words(given)
    if given.action in ("login", "logout"):
        return _log_in_or_out(given, config_dir())
    is_serving = given.action is None
    if is_serving:
        _log_to(Path(given.log) if given.log else state_dir() / "agent.log", given.log_level or "warning")
    settings = agent_settings(given)
    if not is_serving:
        return _examine(settings, as_json=given.json)
    from dragoman.builtin.agent import build_agent
    from dragoman.cli.masked_streams import mask_streams

    mask_streams()  # stored keys, and those that a client passes, are learned later
    _note_if_scripted(settings.model)
    agent = build_agent(settings)
    if given.protocol == "1":
        agent.versions = frozenset((1,))
    agent.run(observers=_telemetry(), through=_through(given.protocol))
    return exits.OK


def agent_settings(given: Any) -> AgentSettings:
    """Return the settings of the agent: of the command line, else of the environment, else of the user's file.

    Raises: CliError, ConfigError.
    """
    from dragoman.builtin.settings import AgentSettings
    from dragoman.settings.places import config_dir, data_dir, state_dir

    written = _written(config_dir())
    return AgentSettings(
        model=given.model or os.environ.get(MODEL_VARIABLE) or written.get("model"),
        store=Path(given.store).absolute() if given.store else data_dir() / "sessions.db",
        rules_file=config_dir() / "rules.json",
        mode=given.mode or written.get("mode") or "ask",
        uses_client_files=not given.no_client_fs,
        uses_client_terminals=not given.no_client_terminal,
        limits=_limits(given),
        title_model=given.title_model or os.environ.get(TITLE_MODEL_VARIABLE) or written.get("title_model"),
        safe_commands=not given.no_safe_commands and written.get("safe_commands", True),
        closes_denied=not given.no_closed_files,
        restores_protected=written.get("restores_protected", False),
        unstable=given.unstable,
        model_lists=state_dir() / "models",
        system_prompt=_system_prompt(given.system, written.get("system_prompt", ""), config_dir()),
        append_system_prompt=given.append_system_prompt or written.get("append_system_prompt", ""),
    )


def _through(protocol: str | None) -> Callable[[Transport], Transport] | None:
    """Return how a client of 2025.1 is served; None for one of version 1 or 2."""
    if protocol in (None, "auto", "1"):
        return None
    from dragoman.cli.dialect import serve_dialect_client

    return serve_dialect_client


def _telemetry() -> tuple[Observer, ...]:
    if not os.environ.get("OTEL_TRACES_EXPORTER"):  # spares the import
        return ()
    from dragoman.telemetry.environment import telemetry_from_environment

    found = telemetry_from_environment()
    return () if found is None else (found,)


def _check_words(given: Any) -> None:
    """Raises: CliError for words that do not belong together."""
    if given.action == "import":
        raise exits.CliError(
            "import comes first, and has options of its own", hint="write it as dragoman agent import [PROGRAM]..."
        )
    if given.json and given.action != "doctor":
        raise exits.CliError("--json is for dragoman agent doctor", hint="leave it out; stdout is used by the protocol")
    if given.keyring and given.action != "login":
        raise exits.CliError("--keyring is for dragoman agent login", hint="dragoman agent login PROVIDER --keyring")
    if given.provider is not None and given.action not in ("login", "logout"):
        raise exits.CliError(f"{given.action} does not take {given.provider!r}", hint="see dragoman agent --help")


def _log_in_or_out(given: Any, folder: Path) -> int:
    """Store or remove a key. A client that offers a terminal adds the word to the whole command of the agent."""
    from dragoman.cli.agent_login import log_in, log_out

    if given.action == "logout":
        return log_out(given.provider, folder)
    model = given.model or os.environ.get(MODEL_VARIABLE)
    return log_in(given.provider, model, folder, "keyring" if given.keyring else "file")


def _examine(settings: AgentSettings, *, as_json: bool) -> int:
    """Show what the built-in agent lacks, and how to get it."""
    from dragoman.builtin.doctor import NO_REAL_MODEL, examine_agent, has_real_model
    from dragoman.cli.agents.doctor import write_findings
    from dragoman.cli.console import write_json

    findings = examine_agent(settings, Path.cwd(), os.environ)
    is_ready = all(finding.state != "missing" for finding in findings)
    has_model = has_real_model(findings)
    if as_json:
        write_json({"ready": is_ready, "real_model": has_model, "findings": findings})
        return exits.OK if is_ready else exits.USAGE
    write_findings(findings)
    if is_ready:
        sys.stdout.write("it can work here\n")
    else:
        sys.stdout.write("it cannot work here yet: something is missing\n" if has_model else f"{NO_REAL_MODEL}\n")
    return exits.OK if is_ready else exits.USAGE


def _written(folder: Path) -> dict[str, Any]:
    """Read what the user's settings state about this agent; without settings, nothing is imported.

    Raises: ConfigError.
    """
    if not (folder / "settings.json").exists():
        return {}
    from dragoman.errors import ConfigError
    from dragoman.policy.modes import MODES
    from dragoman.settings import load_settings

    settings = load_settings(folder)
    if settings.mode and settings.mode not in MODES:
        raise ConfigError(f"{settings.user.path}: there is no mode {settings.mode!r}; there are {', '.join(MODES)}")
    found = {"model": settings.model, "title_model": settings.title_model, "mode": settings.mode}
    found |= {"system_prompt": settings.user.system_prompt, "append_system_prompt": settings.user.append_system_prompt}
    flags = {"safe_commands": settings.safe_commands, "restores_protected": settings.restores_protected}
    return {**{name: value for name, value in found.items() if value}, **flags}


def _system_prompt(option: str | None, setting: str, folder: Path) -> str:
    """Return the text that replaces the agent's own: of the option, else of the setting, whose file is in `folder`."""
    if option is not None:
        text = _text_or_file("--system", option, Path())
        if not text.strip():
            raise exits.CliError("--system must not be empty", hint="leave it out to use the agent's own system prompt")
        return text
    return _text_or_file("the setting system_prompt", setting, folder) if setting else ""


def _text_or_file(name: str, given: str, folder: Path) -> str:
    """Return the content of a file that exists, else the text itself; one word with a slash or an ending is a file."""
    looks_like_path = len(given.split()) == 1 and ("/" in given or given.endswith((".md", ".txt")))
    path = folder / Path(given).expanduser() if looks_like_path or len(given) < _LONGEST_PATH else None
    try:
        if path is not None and (looks_like_path or path.is_file()):
            return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise exits.CliError(
            f"{name}: the file {path} cannot be read: {reason}", hint="name a text file, or write the text itself"
        ) from None
    return given


def _note_if_scripted(model: str | None) -> None:
    from dragoman.builtin.models.find import WITHOUT_PROVIDER

    if model is not None and model.partition(":")[0] in WITHOUT_PROVIDER:
        sys.stderr.write(f"dragoman agent: the model is scripted ({model}): it plays a script and calls no service\n")


def _log_to(path: Path, level: str) -> None:
    """Log to a file: stdout is used by the protocol, and editors show stderr to the user."""
    import logging

    from dragoman.cli.agent_log import agent_log

    logging.basicConfig(level=level.upper(), handlers=[agent_log(path)], force=True)
    logging.captureWarnings(True)  # warnings of a provider's package go to the log, too


def _limits(given: Any) -> TurnLimits:
    from dragoman.builtin.limits import TurnLimits

    steps = _number("--max-turns", given.max_turns)
    turn_tokens = _number("--max-turn-tokens", given.max_turn_tokens)
    session_tokens = _number("--max-session-tokens", given.max_session_tokens)
    return TurnLimits(
        steps=TurnLimits().steps if steps is None else max(1, int(steps)),
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
        "  doctor   show what is missing for the agent to work here, and how to get it\n"
        "  import   carry over what you have set up for other agents: see dragoman agent import --help\n"
        "  login    ask for the key of a provider (or read it from stdin), check it and store it for this agent\n"
        "  logout   remove a stored key"
    ),
    arguments=(
        Argument(
            "action",
            "what to do instead of serving an editor",
            choices=("doctor", "import", "login", "logout"),
            is_optional=True,
        ),
        Argument(
            "provider", "with login and logout: whose key, such as anthropic", is_optional=True, suggest=provider_names
        ),
    ),
    options=(
        CliOption(
            "--model", f"the model to use (default: ${MODEL_VARIABLE}, then `model` of the settings)", value="MODEL"
        ),
        CliOption(
            "--mode",
            "how much it may do without asking in new sessions (default: ask)",
            value="MODE",
            choices=("ask", "edit", "plan", "auto", "full"),
        ),
        CliOption("--no-safe-commands", "also ask before commands that only read files of the project, such as ls"),
        CliOption("--no-closed-files", "do not mount away from commands what rules deny to read or edit"),
        CliOption("--store", "the file that stores its sessions", value="FILE"),
        CliOption("--no-client-fs", "read and write files directly, not through the editor"),
        CliOption("--no-client-terminal", "run commands directly, not in the editor's terminal"),
        CliOption(
            "--title-model",
            f"a small model for session titles (default: ${TITLE_MODEL_VARIABLE})",
            value="MODEL",
        ),
        CliOption("--system", "use this in place of its own system prompt: a file, or the text", value="FILE|TEXT"),
        CliOption("--append-system-prompt", "add this to the system prompt", value="TEXT"),
        CliOption(
            "--unstable",
            "offer unstable parts of the protocol: session/set_title, providers/set, auth/status, systemPrompt, usage",
        ),
        CliOption("--max-turns", "end a turn after this many calls of the model (default: 200)", value="NUMBER"),
        CliOption("--max-turn-cost", "end a turn when it has cost this much", value="USD"),
        CliOption("--max-session-cost", "end every turn when the session has cost this much", value="USD"),
        CliOption("--max-turn-tokens", "end a turn when its model has written this many tokens", value="NUMBER"),
        CliOption(
            "--max-session-tokens",
            "end every turn when the session has written this many tokens",
            value="NUMBER",
        ),
        CliOption(
            "--protocol",
            "the version that the editor speaks; auto is 1 or 2, as its first request says (default: auto)",
            value="VERSION",
            choices=("auto", "1", "2025.1"),
        ),
        CliOption("--keyring", "with login: store the key in the keyring of the system (needs the package keyring)"),
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
        "dragoman agent login anthropic",
        "dragoman agent login openai < key.txt",
        "dragoman agent logout openai",
        "dragoman agent import --dry-run",
    ),
)
