"""Output of a command as styled lines: what a terminal would show of it, without anything that acts on one.

A machine of lines, not of a screen: colours are kept as styles; carriage return, backspace and erasing within the line
work; a link is shown with its real target; every other control is dropped. `needs_screen` states whether the program
moves the cursor between lines or uses the alternate screen, so that lines alone do not show what it draws.
"""

from __future__ import annotations

import re
from typing import Final

from dragoman.text.secrets import known_keys
from dragoman.text.terminal import plain
from dragoman.text.visible import label

# A string sequence ends with BEL or ST; one without an end loses its introducer only, as in `text.terminal`.
_TOKEN: Final = re.compile(
    r"\x1b\]8;[^;\x07\x1b]{0,200};(?P<link>[^\x07\x1b\x9c]{0,2000})(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)(?P<params>[0-?]{0,64})[ -/]*(?P<final>[@-~])"
    r"|\x1b[ -/]*[0-~]"
    r"|(?P<control>[\r\x08])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_SCREEN: Final = re.compile(r"(?:\x1b\[|\x9b)(?:\d*;\d*[Hf]|[H]|\d*[ABEF]|\d+d|[?]1049h|[?]1047h|[?]47h)")
_LONGEST: Final = 20_000  # characters of one line that is written over


def needs_screen(text: str) -> bool:
    """Whether a program draws a screen instead of writing lines."""
    return "\x1b" in text and _SCREEN.search(text) is not None


def output_lines(text: str) -> list[list[tuple[str, str]]]:
    """Return the runs of each line; the style of a run is empty or `sgr:` with the codes that are in force."""
    text = known_keys.mask(text).replace("\r\n", "\n")
    if "\x1b" not in text and "\r" not in text and "\x08" not in text and "\x9b" not in text:
        return [[(line, "")] if line else [] for line in plain(text).split("\n")]
    machine = _Machine()
    lines = []
    for line in text.split("\n"):
        machine.take(line)
        lines.append(machine.end_line())
    return lines


class _Machine:
    """The line that is being written, cell by cell, and the colours in force."""

    def __init__(self) -> None:
        self._letters: list[str] = []
        self._styles: list[str] = []
        self._column = 0
        self._codes: dict[str, str] = {}  # group -> codes
        self._style = ""
        self._target = ""

    def take(self, line: str) -> None:
        at = 0
        for token in _TOKEN.finditer(line):
            self._write(line[at : token.start()])
            at = token.end()
            if token["link"] is not None:
                self._link(token["link"])
            elif token["final"] is not None:
                self._sequence(token["params"], token["final"])
            elif token["control"] == "\r":
                self._column = 0
            elif token["control"] == "\x08":
                self._column = max(0, self._column - 1)
        self._write(line[at:])

    def end_line(self) -> list[tuple[str, str]]:
        runs: list[tuple[str, str]] = []
        start = 0
        for index in range(1, len(self._letters) + 1):
            if index == len(self._letters) or self._styles[index] != self._styles[start]:
                runs.append(("".join(self._letters[start:index]), self._styles[start]))
                start = index
        if runs and not runs[-1][0].strip() and not runs[-1][1]:
            runs.pop()
        self._letters, self._styles, self._column = [], [], 0
        return runs

    def _write(self, text: str) -> None:
        text = plain(text)
        if not text:
            return
        if self._column == len(self._letters):
            self._letters += text
            self._styles += [self._style] * len(text)
        elif len(self._letters) < _LONGEST:
            missing = self._column - len(self._letters)
            if missing > 0:
                self._letters += " " * missing
                self._styles += [""] * missing
            end = self._column + len(text)
            self._letters[self._column : end] = text
            self._styles[self._column : end] = [self._style] * len(text)
        self._column += len(text)

    def _link(self, target: str) -> None:
        if self._target:
            shown, self._target = self._target, ""
            self._write(f" ({label(shown, 500)})")
        self._target = target

    def _sequence(self, params: str, final: str) -> None:
        if final == "m":
            self._colours(params)
        elif final == "K":
            self._erase(params)
        elif final == "G" or final == "`":
            self._column = min(_LONGEST, max(0, _number(params, 1) - 1))
        elif final == "C":
            self._column = min(_LONGEST, self._column + _number(params, 1))
        elif final == "D":
            self._column = max(0, self._column - _number(params, 1))

    def _erase(self, params: str) -> None:
        mode = _number(params, 0)
        if mode == 0:
            del self._letters[self._column :], self._styles[self._column :]
        elif mode == 2:
            self._letters, self._styles = [], []
        elif mode == 1:
            end = min(self._column + 1, len(self._letters))
            self._letters[:end], self._styles[:end] = [" "] * end, [""] * end

    def _colours(self, params: str) -> None:
        if params and not re.fullmatch(r"[\d;:]*", params):
            return
        codes = [part or "0" for part in params.replace(":", ";").split(";")]
        at = 0
        while at < len(codes):
            code = int(codes[at])
            if code in (38, 48) and at + 1 < len(codes):
                take = 3 if codes[at + 1] == "5" else 5
                value = codes[at : at + take]
                at += take
                if len(value) == take and all(int(number) < 256 for number in value[2:]):
                    self._codes["fg" if code == 38 else "bg"] = ";".join(value)
                continue
            self._colour(code)
            at += 1
        self._style = "sgr:" + ";".join(self._codes.values()) if self._codes else ""

    def _colour(self, code: int) -> None:
        codes = self._codes
        if code == 0:
            codes.clear()
        elif code in (1, 2, 3, 4, 7, 9):  # not 5, blinking, and not 8, which hides text
            codes[str(code)] = str(code)
        elif code == 22:
            codes.pop("1", None)
            codes.pop("2", None)
        elif code in (23, 24, 27, 29):
            codes.pop(str(code - 20), None)
        elif code == 39 or code == 49:
            codes.pop("fg" if code == 39 else "bg", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            codes["fg"] = str(code)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            codes["bg"] = str(code)


def _number(params: str, missing: int) -> int:
    first = params.partition(";")[0]
    return min(int(first), _LONGEST) if first.isdigit() and len(first) < 9 else missing
