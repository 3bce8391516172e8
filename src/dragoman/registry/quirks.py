"""Quirks: what a client has to do differently for one agent, and the recording that proves it.

The table is here, and how an agent is recognised: by its name in the settings, or by the program it runs. The user's
settings override single members. The quirks are applied by the client, not here.
"""

from __future__ import annotations

import os.path
import re
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace


class Quirks(Struct, frozen=True, kw_only=True):
    """What to do differently for one agent; by default nothing."""

    withhold: frozenset[str] = frozenset()
    """Capabilities not to offer although the client has them, such as `fs.readTextFile`."""
    spare: tuple[str, ...] = ()
    """Words in the command lines of processes that are not ended with the agent."""
    daemons: tuple[str, ...] = ()
    """Words in the command lines of its daemons. One that a run started ends with it; another is left and named."""
    missing_file: Literal["error", "empty"] = "error"
    """The answer to reading a file that does not exist."""
    replays_late: bool = False
    """Whether it answers `session/load` before it has replayed the history; its list of commands comes after it."""
    evidence: str = ""
    """The recording that proves the quirk, or the place in the settings that set it."""


class KnownAgent(NamedTuple):
    """A row of the table: the names of an agent (in settings, of its program or package) and its quirks."""

    names: frozenset[str]
    quirks: Quirks
    why: str


PLAIN: Final = Quirks()

# Recordings are in `transcripts/`. Of two agents only the notes were kept, not the recordings.
KNOWN: Final = (
    KnownAgent(
        frozenset({"gemini", "gemini-cli", "@google/gemini-cli"}),
        Quirks(withhold=frozenset({"fs.readTextFile"}), replays_late=True, evidence="transcripts/gemini.jsonl"),
        "it reads a file before it creates it and treats the answer that there is none as a failure, so it cannot "
        "create files; if reading is not offered it reads the disk, and still writes through the client; "
        "a prompt sent right after session/load was answered would be mixed up with the history that still arrives",
    ),
    KnownAgent(
        frozenset({"cline"}),
        Quirks(daemons=("--cline-hub-daemon",), evidence="research/real-agents.md#35"),
        "its hub leaves the agent's process group; a hub that was there before serves other editors too",
    ),
    KnownAgent(
        frozenset({"openhands", "openhands-cli"}),
        Quirks(daemons=("tmux -Lopenhands",), evidence="research/real-agents.md#35"),
        "its tmux server leaves the agent's process group; one that was there before has the shells of other runs",
    ),
)

# Programs that run another one named in their arguments.
_RUNNERS: Final = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx", "npm", "pnpm", "yarn", "uv", "bun", "deno"})
_NAMING: Final = frozenset({"guard", "record"})
_RELAYS: Final = frozenset({*_NAMING, "translate", "conduct"})
_INTERPRETERS: Final = frozenset({"node", "python", "pypy"})
_RUNNER_VERBS: Final = frozenset({"exec", "dlx", "run", "x", "tool"})
_TAKES_VALUE: Final = frozenset({"--from", "--python", "-p", "--package", "--with", "--prefix", "-C", "--directory"})


def quirks_of(name: str, command: tuple[str, ...]) -> Quirks:
    """Return the quirks of an agent, by its name in the settings and its command."""
    names = {name.strip().lower().replace(" ", "-"), *programs(command)}
    for agent in KNOWN:
        if agent.names & names:
            return agent.quirks
    return PLAIN


def overridden(quirks: Quirks, overrides: dict[str, object], where: str) -> Quirks:
    """Return `quirks` with the members that the settings override; the reader of the settings has checked them."""
    return replace(quirks, **overrides, evidence=where) if overrides else quirks


def programs(command: tuple[str, ...]) -> set[str]:
    """Return the names of the programs that a command runs: `npx -y gemini@latest` runs `npx` and `gemini`."""
    words = list(command)
    if words and os.path.basename(words[0]) == "env":
        words = words[1:]
        while words and ("=" in words[0] or words[0].startswith("-")):
            words = words[1:]
    if not words:
        return set()
    first = _bare(words[0])
    found = {first, *_packages(words[0])}
    if first in _RUNNERS:
        found |= _run_by_runner(words[1:])
    elif first.rstrip("0123456789.") in _INTERPRETERS:
        found |= _run_by_interpreter(words[1:])
    if "dragoman" in found:
        found |= _run_by_dragoman(words)
    return found


def _run_by_dragoman(words: list[str]) -> set[str]:
    """Return the agent behind one of our programs: what `wrap` wraps, a relay runs after `--` or names with `-a`."""
    for place, word in enumerate(words[:-1]):
        rest = words[place + 1 :]
        if word == "wrap":
            return {rest[0]} if rest[0].isalnum() else set()
        if word in _RELAYS:
            if "--" in rest:
                return programs(tuple(rest[rest.index("--") + 1 :]))
            # `translate --agent` is a version of the protocol.
            return {name.lower() for option, name in pairwise(rest) if word in _NAMING and option in ("-a", "--agent")}
    return set()


def _run_by_runner(words: list[str]) -> set[str]:
    """Return the first word that is neither an option nor a verb of the runner, without its version."""
    found, is_value_next = set(), False
    for word in words:
        if is_value_next or not word.startswith("-"):
            if not is_value_next and word in _RUNNER_VERBS:
                continue
            found.add(_without_version(word))
            if not is_value_next:
                return found
            is_value_next = False
        else:
            is_value_next = word in _TAKES_VALUE
            if "=" in word:
                found.add(_without_version(word.partition("=")[2]))
    return found


def _run_by_interpreter(words: list[str]) -> set[str]:
    for place, word in enumerate(words):
        if word == "-m" and place + 1 < len(words):
            return {words[place + 1].partition(".")[0].replace("_", "-")}
        if not word.startswith("-"):
            return {_bare(word), *_packages(word)}
    return set()


def _packages(path: str) -> set[str]:
    """Return the npm package that contains a path."""
    return set(re.findall(r"node_modules/((?:@[^/]+/)?[^/@.][^/]*)/", path))


def _without_version(package: str) -> str:
    """Return the name in `@scope/name@1.2`, `name==1.2` or `name[extra]`."""
    return re.split(r"(?<=.)@|[=<>~!\[]", package, maxsplit=1)[0].lower()


def _bare(program: str) -> str:
    return re.sub(r"\.(js|mjs|cjs|py|sh|exe|cmd)$", "", os.path.basename(program)).lower()
