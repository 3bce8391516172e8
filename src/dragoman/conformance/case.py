"""What a case is: one behaviour the protocol asks for, how to provoke it, and the ways it can end.

Owns the registry of cases and the outcomes. It does not depend on how a program is started or a result printed.
A case is an async function of a probe: it returns if all is well and raises one of the endings below if not; any other
exception is an error of the judge, never a failure of the judged program. Cases of one or two statements are rows of a
table (`add_cases`), all others are functions (`@case`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.trace.entry import Entry

Binds: TypeAlias = Literal["agent", "client"]
Level: TypeAlias = Literal["MUST", "SHOULD", "MAY"]
Status: TypeAlias = Literal["pass", "fail", "warn", "skipped", "inconclusive", "error", "note"]

STATUSES: Final[tuple[Status, ...]] = ("fail", "error", "warn", "note", "inconclusive", "skipped", "pass")
"""Every status, the most interesting first: the order of a report."""


class Ending(Exception):
    """How a case ends if not well; `message` states what was seen, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Fail(Ending):
    """The judged program broke the rule: a failure in a case of level MUST, a warning in any other."""


class Warn(Ending):
    """Something a rule of a lower level than the case's asks for is missing: always a warning."""


class Skip(Ending):
    """The program does not offer what the case is about, and need not."""


class Inconclusive(Ending):
    """The case needs the program (its model, its user) to do something that it did not do."""


Run: TypeAlias = Callable[[Any], Awaitable[None]]
R = TypeVar("R", bound=Run)

ALONE: Final = ""
"""A value of `Case.shares`: the case has a connection of its own and does the handshake itself."""
_DEFAULT_SHARES: Final[dict[Binds, str]] = {"agent": "full", "client": ALONE}


class CaseNeeds(NamedTuple):
    """What the program must offer or do for a case to make sense; otherwise the case is skipped.

    An agent is asked after the handshake of the set-up that the case shares, a client in a plain turn.
    """

    offers: tuple[str, ...] = ()
    """Capabilities it advertises."""
    lacks: str = ""
    """A capability it does not advertise (of clients)."""
    calls: str = ""
    """A method it calls by itself (of clients)."""


@dataclass(frozen=True)
class Case(ABC):
    """One behaviour. A subclass is a kind of row: it adds what is sent and expected, and `run` carries that out."""

    id: str
    """`<agent|client>/<area>/<name>`."""
    _: KW_ONLY
    rules: tuple[int, ...]
    """Numbers of docs/spec/rules.md."""
    level: Level = "MUST"
    about: str
    """One sentence on what the judged program does if it conforms."""
    shares: str | None = None
    """Cases that name the same set-up here run one after the other on one connection; `ALONE` wants one of its own.
    By default agents share a connection of a client that offers everything, and clients have a connection each."""
    is_watched: bool = True
    """Whether the passive checks look at its traffic. They do not if the case sends what no peer may send: they would
    find answers to that, which the case itself judges more leniently."""
    provokes: bool = False
    """Whether it sends what no peer may send, though its traffic is watched: what the passive checks find while it
    runs, and later in what it left behind, counts as the case does, so that no SHOULD becomes a failure."""
    needs: CaseNeeds | None = None

    @property
    def binds(self) -> Binds:
        return "agent" if self.id.startswith("agent/") else "client"

    @property
    def area(self) -> str:
        return self.id.split("/")[1]

    @property
    def setup(self) -> str:
        """The set-up it shares, with the default filled in."""
        return _DEFAULT_SHARES[self.binds] if self.shares is None else self.shares

    @property
    @abstractmethod
    def steps(self) -> str:
        """What is sent and what is expected, for `--explain`. A row derives it from its data."""

    @abstractmethod
    async def run(self, probe: Any) -> None:
        """Run the case on one connection."""


@dataclass(frozen=True, kw_only=True)
class FunctionCase(Case):
    """A case that is a function of a probe."""

    function: Run
    explanation: str

    @property
    def steps(self) -> str:
        return self.explanation

    async def run(self, probe: Any) -> None:
        await self.function(probe)


class CaseResult(msgspec.Struct):
    """How one case ended for one program."""

    id: str
    status: Status
    message: str = ""
    seconds: float = 0.0
    evidence: list[Entry] = []
    first: int = 0
    """The number of the first piece of evidence in its connection or recording; 0 if the evidence is not in a row."""
    side: Binds | None = None
    """Of a recording: the side at fault."""
    count: int = 1
    """How often it was seen."""


CASES: Final[dict[str, Case]] = {}
"""Every case that was imported so far, by id; `load_cases` imports all of them."""

REMOTE_CASES: Final[dict[str, Case]] = {}
"""The cases about how an agent is served, by id; `remote/cases.py` fills it. They cite no rule of the protocol."""


VERSION2_CASES: Final[dict[str, Case]] = {}
"""The cases for agents of version 2, by id; `agent/version2/cases.py` fills it."""


def add_cases(*cases: Case, registry: dict[str, Case] = CASES) -> None:
    """Register cases, which are the rows of a table."""
    for row in cases:
        if row.id in registry or not re.fullmatch("(agent|client)/[^/]+/[^/]+", row.id):
            raise ValueError(f"{row.id!r} is taken, or not of the form <agent|client>/<area>/<name>")
        registry[row.id] = row


def case(
    id: str,
    *,
    rules: tuple[int, ...],
    level: Level = "MUST",
    shares: str | None = None,
    is_watched: bool = True,
    provokes: bool = False,
    needs: CaseNeeds | None = None,
    registry: dict[str, Case] = CASES,
) -> Callable[[R], R]:
    """Register the decorated function as the case `id`.

    The first line of its docstring states what a program does that conforms, the rest what is sent and expected.
    """

    def register(run: R) -> R:
        first, _, rest = (run.__doc__ or "").partition("\n")
        # Reports show it in the middle of a line.
        about = first[:1].lower() + first[1:] if first[1:2].islower() or first[1:2] == " " else first
        texts = {"about": about.removesuffix("."), "explanation": " ".join(rest.split())}
        add_cases(
            FunctionCase(
                id,
                rules=rules,
                level=level,
                shares=shares,
                is_watched=is_watched,
                provokes=provokes,
                needs=needs,
                function=run,
                **texts,
            ),
            registry=registry,
        )
        return run

    return register


def load_cases(binds: Binds, patterns: Iterable[str] = ()) -> list[Case]:
    """Return every case for this side, or those whose id fits one of the shell patterns; in the order of the modules.

    A pattern may omit the side (`prompt/*`) and stands for everything below it (`prompt`).
    """
    cases = import_module(f"dragoman.conformance.{binds}.cases")
    for module in sorted(found.name for found in iter_modules(cases.__path__)):
        import_module(f"{cases.__name__}.{module}")
    return choose_cases(CASES.values(), binds, patterns)


def choose_cases(cases: Iterable[Case], binds: Binds, patterns: Iterable[str]) -> list[Case]:
    """Return those of the cases that are for this side and fit one of the patterns, or all if there are none."""
    wanted = [pattern.removeprefix(f"{binds}/").rstrip("/") for pattern in patterns]
    return [row for row in cases if row.binds == binds and (not wanted or _fits(row, wanted))]


def _fits(candidate: Case, wanted: Sequence[str]) -> bool:
    name = candidate.id.partition("/")[2]
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*") for pattern in wanted)


def status_of(judged: Case, ending: Ending) -> Status:
    """Return what an ending counts as in this case."""
    match ending:
        case Fail():
            return "fail" if judged.level == "MUST" else "warn"
        case Warn():
            return "warn"
        case Skip():
            return "skipped"
        case _:
            return "inconclusive"
