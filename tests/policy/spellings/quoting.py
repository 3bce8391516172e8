"""Words as a shell may spell them: other quotes, other clusters and orders of options, and lines inside of lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from random import Random

_PLAIN = re.compile(r"[\w./:=@%+,-]+")


def quoted(word: str, random: Random) -> str:
    """Return a spelling of the word for bash; most often the usual one."""
    way = random.randrange(10)
    usual = shlex.quote(word)
    # The name of the file is looked for in the line; it stays in one piece.
    if "victim" in word or not _PLAIN.fullmatch(word) or way < 4:
        return usual if way < 8 or "'" in word else f"'{word}'"
    cut = random.randrange(len(word) + 1)
    escaped = "".join(f"\\{letter}" if letter.isalnum() else letter for letter in word)
    coded = "".join(random.choice((letter, f"\\{ord(letter):03o}", f"\\x{ord(letter):02x}")) for letter in word)
    return (
        f"'{word}'",
        f'"{word}"',
        f"{word[:cut]}''{word[cut:]}",
        f'"{word[:cut]}"{word[cut:]}',
        escaped,
        f"$'{coded}'",
    )[way - 4]


def joined(words: Sequence[str], random: Random) -> str:
    """Return a line of these words, one of them perhaps spelled in an unusual way."""
    odd = random.randrange(3 * len(words))
    spelled = [quoted(word, random) if number == odd else shlex.quote(word) for number, word in enumerate(words)]
    return random.choice((" ", " ", "  ", "\t", " \\\n")).join(spelled)


class Options:
    """Options of a command that may be spelled in several ways: `letters` and `names` of equal meaning.

    Each item is (letter, long names): `("r", ("recursive",))`. An item without letter has `""`.
    """

    def __init__(self, *items: tuple[str, Sequence[str]], can_shorten: bool = True, shortest: int = 4) -> None:
        self._items = items
        self._can_shorten = can_shorten
        self._shortest = shortest

    def spelled(self, others: Sequence[str], random: Random) -> list[str]:
        """Return words with all of these options; `others` are letters of flags that change nothing here."""
        apart: list[str] = []
        cluster: list[str] = []
        for letter, names in random.sample(self._items, len(self._items)):
            if letter and (not names or random.random() < 0.6):
                cluster.append(random.choice(letter))
            else:
                name = random.choice(names)
                end = random.randint(min(self._shortest, len(name)), len(name)) if self._can_shorten else len(name)
                apart.append(f"--{name[:end]}")
        cluster += random.sample(others, random.randint(0, len(others)))
        random.shuffle(cluster)
        while cluster:
            size = random.randint(1, len(cluster))
            apart.append("-" + "".join(cluster[:size]))
            del cluster[:size]
        random.shuffle(apart)
        return apart


def forms(text: str) -> tuple[str, ...]:
    """Return the forms of a list, one per row; `$N` is the end of a line in it."""
    return tuple(row.strip().replace("$N", "\n") for row in text.strip().splitlines())


def put(form: str, line: str) -> str:
    """Return a form with the line in it.

    `%s` is the line, `%q` the line as one word, which may be continued (`alias.z='!'%q`), `%a` the line inside of
    single quotes.
    """
    text = form.replace("%%", "\0").replace("%q", shlex.quote(line)).replace("%a", line.replace("'", "'\\''"))
    return text.replace("%s", line).replace("\0", "%")
