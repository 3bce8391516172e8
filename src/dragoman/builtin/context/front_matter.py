"""The front matter of Markdown files: `key: value` lines between two lines `---`, before the text.

Owns the subset of YAML that files of commands, agents and skills use, read leniently: a value may hold colons without
quotes, a list may be dashes, brackets or commas, `|` and `>` begin longer texts. Keys are compared in lower case, with
`_` and `-` as the same letter. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_FENCE: Final = "---"
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)\s*:(?:\s+(.*)|\s*)$")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?")


class FrontMatter(Struct, frozen=True):
    """The members of a file's front matter, and the text after it."""

    members: dict[str, str | tuple[str, ...]]
    body: str
    problems: tuple[str, ...] = ()
    """What was not understood, one sentence for each line, with its number in the file."""

    def text(self, key: str) -> str:
        """Return the value of a member as one text; empty if there is none."""
        value = self.members.get(key, "")
        return value if isinstance(value, str) else ", ".join(value)

    def names(self, key: str) -> tuple[str, ...] | None:
        """Return the value of a member as a list: dashes, brackets or commas. None if there is no such member."""
        value = self.members.get(key)
        if value is None or isinstance(value, tuple):
            return value
        found = (_unquoted(word) for word in _split(value.strip().removeprefix("[").removesuffix("]")))
        return tuple(word for word in found if word)

    def flag(self, key: str) -> bool | None:
        """Return the value of a member that is yes or no; None if there is none, or it is neither."""
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
            self.text(key).lower()
        )


def read_front_matter(text: str) -> FrontMatter:
    """Split a file into its members and its text. A file without front matter has no members. Never raises."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE]
    if lines[0].rstrip() != _FENCE or not ends:
        return FrontMatter({}, "\n".join(lines).strip())
    reading = _Reading()
    for number, line in enumerate(lines[1 : ends[0]], 2):
        reading.take(number, line)
    return FrontMatter(reading.members(), "\n".join(lines[ends[0] + 1 :]).strip(), tuple(reading.problems))


class _Reading:
    """A reading of front matter, which collects the lines of each member."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._found: dict[str, tuple[str, list[str]]] = {}
        """First value and further lines of each member."""
        self._key: str | None = None

    def take(self, number: int, line: str) -> None:
        is_indented = line[:1] in (" ", "\t")
        if not line.strip():
            if self._key is not None:
                self._found[self._key][1].append("")
            return
        if line.lstrip().startswith("#") and not (is_indented and self._is_block):
            return
        member = None if is_indented else _KEY.match(line)
        if member is not None:
            self._key = member[1].lower().replace("_", "-")
            self._found[self._key] = ((member[2] or "").strip(), [])
        elif self._key is not None and (is_indented or line.startswith("-")):
            self._found[self._key][1].append(line.rstrip())
        else:
            self._key = None
            self.problems.append(f"line {number} is not `key: value`")

    @property
    def _is_block(self) -> bool:
        return self._key is not None and _BLOCK.fullmatch(self._found[self._key][0]) is not None

    def members(self) -> dict[str, str | tuple[str, ...]]:
        return {key: _value(first, rest) for key, (first, rest) in self._found.items()}


def _value(first: str, rest: list[str]) -> str | tuple[str, ...]:
    if _BLOCK.fullmatch(first):
        return _block(rest, is_folded=first.startswith(">"))
    written = [line.strip() for line in rest if line.strip()]
    if not first and written and all(line == "-" or line.startswith("- ") for line in written):
        return tuple(item for item in (_unquoted(_uncommented(line[1:])) for line in written) if item)
    if first.startswith(("'", '"', "[")):
        whole = " ".join([first, *written])
        return _unquoted(_uncommented(whole))
    return " ".join(" ".join([_uncommented(first), *written]).split())


def _block(lines: list[str], *, is_folded: bool) -> str:
    """Return a longer text without its indentation; folded, single line ends become blanks."""
    depths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    text = "\n".join(line[min(depths, default=0) :] for line in lines).strip()
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if is_folded else text


def _uncommented(value: str) -> str:
    """Return the value without a comment, which begins with a blank and `#` outside of quotes."""
    value = value.strip()
    if value[:1] in ("'", '"'):
        end = value.find(value[0], 1)
        return value if end < 0 or not value[end + 1 :].lstrip().startswith("#") else value[: end + 1]
    return re.split(r"\s#", value, maxsplit=1)[0].strip()


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        quote = value[0]
        value = value[1:-1]
        return value.replace("''", "'") if quote == "'" else value.replace('\\"', '"').replace("\\n", "\n")
    return value


def _split(value: str) -> list[str]:
    """Split at commas that are not in brackets, as in `Bash(git:*, ls), Read`."""
    parts, depth = [""], 0
    for letter in value:
        depth = max(depth + (letter == "(") - (letter == ")"), 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
