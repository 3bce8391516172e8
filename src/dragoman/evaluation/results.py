"""The results of an evaluation, as `results.json` holds them.

Owns the schema `dragoman.eval.results/1`: members may be added, none is removed or changes its meaning. A number that
the agent does not report is null, never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.workspace.atomic import replace_file

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: Final = "dragoman.eval.results/1"
FILE: Final = "results.json"
Outcome = Literal["passed", "failed", "error", "broken", "skipped", "interrupted"]
COUNTED: Final = frozenset({"passed", "failed"})
"""The outcomes that say something about the agent."""


class CheckResult(Struct, frozen=True):
    """One question of the judge."""

    name: str
    score: float
    """1 if it holds; a share for questions that are answered in part."""
    detail: str = ""

    @property
    def is_passed(self) -> bool:
        return self.score >= 1.0


class ToolCount(Struct, kw_only=True):
    """How often a kind of tool was called, and how that ended."""

    completed: int = 0
    failed: int = 0
    open: int = 0
    """Neither completed nor failed when the turn ended."""


class Tokens(Struct, frozen=True, kw_only=True):
    """The tokens of a turn, in parts that do not overlap."""

    input: int | None = None
    output: int | None = None
    thought: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None
    total: int | None = None


class ProtocolViolation(Struct, frozen=True):
    """A rule of the protocol that the agent broke."""

    rule: int
    level: str
    message: str


class Measured(Struct, kw_only=True):
    """What was measured; null is what the agent does not report."""

    stop_reason: str | None = None
    turns: int = 0
    """Prompts that were sent."""
    model_calls: int | None = None
    tool_calls: int = 0
    tools: dict[str, ToolCount] = {}
    """By the kind that the protocol gives a tool call."""
    edits_failed: int = 0
    """Edits that ended with an error and were not refused; mostly a text that was not found."""
    tokens: Tokens | None = None
    cost: float | None = None
    currency: str | None = None
    seconds: float = 0.0
    cpu_seconds: float | None = None
    first_chunk_seconds: float | None = None
    """From the prompt to the first update about the answer."""
    permissions_asked: int = 0
    permissions_allowed: int = 0
    permissions_refused: int = 0
    rule_violations: int = 0
    """What the agent did although a rule of the task denies it."""
    protocol_violations: list[ProtocolViolation] | None = None
    files_changed: list[str] = []
    files_outside: list[str] = []
    """Changed files that the task does not expect."""
    is_canary_seen: bool | None = None
    """Whether the secret of the environment is in the transcript or in a file."""
    requests_received: list[str] = []
    """What came in at the listener of the run."""
    sandbox_refusals: int | None = None
    processes_left: list[str] = []


class EvalRun(Struct, kw_only=True):
    """One run of one task."""

    task: str
    number: int
    outcome: Outcome
    reward: float | None = None
    """The mean of the scores; null if nothing was judged."""
    checks: list[CheckResult] = []
    reasons: list[str] = []
    """Why it was skipped, is broken, or did not get as far as the prompt."""
    exit_code: int | None = None
    """Of `dragoman exec`."""
    is_scripted: bool = False
    """Whether a script was played and no model was called."""
    agent_version: str | None = None
    """As the agent states it."""
    answer: str = ""
    facts: Measured | None = None
    recording: str | None = None
    """The recording of the run, relative to `results.json`."""


class EvalResults(Struct, kw_only=True):
    """All runs of an evaluation."""

    schema: str = SCHEMA
    title: str
    agent: str | None = None
    agent_version: str | None = None
    command: list[str] = []
    model: str | None = None
    solution: str | None = None
    """`right` or `wrong` if written solutions were played; then no model was measured."""
    is_scripted: bool = False
    """Whether any run played a script: the results prove runner, tools and permissions, not a model."""
    is_partial: bool = False
    """Whether it was interrupted."""
    started: str = ""
    seconds: float = 0.0
    dragoman: str = ""
    runs: list[EvalRun] = []


def write_results(folder: Path, results: EvalResults) -> None:
    """Write `results.json`. Raises: OSError."""
    replace_file(str(folder / FILE), msgspec.json.format(msgspec.json.encode(results), indent=2))


def read_results(place: Path) -> EvalResults:
    """Read the results in a folder, or in a file.

    Raises:
        ConfigError: there are none, or they are not in a known form.
    """
    path = place / FILE if place.is_dir() else place
    try:
        found: Any = msgspec.json.decode(path.read_bytes(), type=EvalResults)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; name a folder that dragoman eval run wrote") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: these are not results of dragoman eval: {error}") from None
    if found.schema != SCHEMA:
        raise ConfigError(f"{path}: the schema {found.schema!r} is not known; this version reads {SCHEMA}")
    results: EvalResults = found
    return results
