"""What a case is: one behaviour the protocol asks for, how to provoke it, and the ways it can end.

Owns the registry of cases and the outcomes. It does not know how a program is started or a result printed.
A case is an async function of a probe: it returns if all is well and raises one of the endings below if not; any other
exception is an error of the judge, never a failure of the judged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
Status: TypeAlias = Literal["pass", "fail", "warn", "skipped", "inconclusive", "error"]

STATUSES: Final[tuple[Status, ...]] = ("fail", "error", "warn", "inconclusive", "skipped", "pass")
"""Every status, the most interesting first: the order of a report."""


class Ending(Exception):
    """How a case ends if not well; `message` says what was seen, in one line."""

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


class Case(NamedTuple):
    """One behaviour: `id` is `<binds>/<area>/<name>`, `rules` are numbers of docs/spec/rules.md."""

    id: str
    binds: Binds
    rules: tuple[int, ...]
    level: Level
    about: str
    """One sentence on what the judged program does if it conforms."""
    steps: str
    """What is sent and what is expected, for `--explain`."""
    run: Run
    shares: str
    """Cases that name the same set-up here run one after the other on one connection; "" wants one of its own."""
    is_watched: bool
    """Whether the passive checks look at its traffic. Not if it sends what no peer may send: what they would find are
    answers to that, which the case itself judges with more mercy."""

    @property
    def area(self) -> str:
        return self.id.split("/")[1]


class CaseResult(msgspec.Struct):
    """How one case ended for one program."""

    id: str
    status: Status
    message: str = ""
    seconds: float = 0.0
    evidence: list[Entry] = []


CASES: Final[dict[str, Case]] = {}
"""Every case that was imported so far, by id; `load_cases` imports all of them."""


def case(
    id: str,
    *,
    rules: Sequence[int],
    about: str,
    level: Level = "MUST",
    shares: str = "",
    is_watched: bool = True,
) -> Callable[[R], R]:
    """Registers the decorated function as the case `id`; its docstring says what is sent and what is expected."""

    def register(run: R) -> R:
        binds = id.partition("/")[0]
        if id in CASES or id.count("/") != 2 or binds not in ("agent", "client"):
            raise ValueError(f"{id!r} is taken, or not of the form <agent|client>/<area>/<name>")
        steps = " ".join((run.__doc__ or "").split())
        side: Binds = "agent" if binds == "agent" else "client"
        CASES[id] = Case(id, side, tuple(rules), level, about, steps, run, shares, is_watched)
        return run

    return register


def load_cases(binds: Binds, patterns: Iterable[str] = ()) -> list[Case]:
    """Every case for this side, or those whose id fits one of the shell patterns; in the order of the modules.

    A pattern may leave out the side (`prompt/*`) and stands for all below it (`prompt`).
    """
    cases = import_module(f"dragoman.conformance.{binds}.cases")
    for module in sorted(found.name for found in iter_modules(cases.__path__)):
        import_module(f"{cases.__name__}.{module}")
    wanted = [pattern.removeprefix(f"{binds}/").rstrip("/") for pattern in patterns]
    return [each for each in CASES.values() if each.binds == binds and (not wanted or _fits(each, wanted))]


def _fits(each: Case, wanted: Sequence[str]) -> bool:
    name = each.id.partition("/")[2]
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*") for pattern in wanted)


def status_of(each: Case, ending: Ending) -> Status:
    """What an ending counts as in this case."""
    match ending:
        case Fail():
            return "fail" if each.level == "MUST" else "warn"
        case Warn():
            return "warn"
        case Skip():
            return "skipped"
        case _:
            return "inconclusive"
