"""A reader of shell lines: a documented subset of bash, read exactly as bash reads it, and everything else refused.

Read: simple commands of literal words; `&&`, `||`, `;`, `|` and line breaks; quotes and escapes; globs in arguments;
`~/`; comments; redirections to and from files and descriptors; here-documents with a quoted delimiter; assignments in
front of a command. Refused, with the reason: substitution, variables, subshells, groups, reserved words, brace
expansion, background commands, and whatever else makes the words depend on something that is not in the line.
The reader never recovers: a line is read completely, or it is `Unreadable`. What the programs do is not known here.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Join: TypeAlias = Literal["and", "or", "seq", "pipe"]

# No real line comes near these limits; they keep the time that hostile lines take in proportion.
MAX_PARTS: Final = 200
MAX_LETTERS: Final = 64 * 1024  # outside quotes and here-documents
MAX_WORDS: Final = 2_000
MAX_PIECES: Final = 8_000  # blanks, words, quoted strings, escapes

_RESERVED: Final = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select"),
        *("function", "time", "coproc", "in", "{", "}", "!", "[[", "]]"),
    }
)
# Control characters other than tab and line feed, and halves of surrogate pairs, which no program can be passed.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PLAIN: Final = re.compile(r"[^\s'\"\\$`;&|<>(){}*?\[~#=:]+")
_SPECIAL_IN_DOUBLE_QUOTES: Final = re.compile(r'["\\$`]')
# A `$` before any of these starts an expansion.
_EXPANDING: Final = re.compile(r"\$[A-Za-z0-9_{(\[@*#?$!'\"-]")
_EXPANDING_IN_QUOTES: Final = re.compile(r"\$[A-Za-z0-9_{(\[@*#?$!'-]")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_ODD_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\+=|\[)")
_DELIMITER: Final = re.compile(r"""(?:'([^'\n]+)'|"([^"\\$`\n]+)"|\\([A-Za-z0-9_]+))(?=[ \t\n;|&<>]|$)""")
_REDIRECTION: Final = re.compile(r"([0-9]*)(<<<|<<-?|<>|<&|<|>>|>&|>\||>|(?<![0-9])&>>|(?<![0-9])&>)[ \t]*")
_OPERATORS: Final = frozenset({"<", ">", ">>", ">&", "<&", "&>", "&>>"})
_LEADING_TABS: Final = re.compile(r"^\t+", re.MULTILINE)
_DESCRIPTOR: Final = re.compile(r"[0-9]+|-")
_OPERATOR: Final = re.compile(r"[;&|]+")
_JOINS: Final[dict[str, Join]] = {"&&": "and", "||": "or", ";": "seq", "|": "pipe"}


class Word(Struct, frozen=True):
    """One word of a command, quotes and escapes taken away."""

    text: str
    fixed: str | None = None  # the beginning before the first glob letter; None if the word has no glob
    is_home: bool = False  # it starts with an unquoted `~`

    @property
    def path(self) -> str:
        """The word as a path; a quoted `~` is an ordinary name, and so must not be read as the home folder."""
        return f"./{self.text}" if self.text.startswith("~") and not self.is_home else self.text


class Redirection(Struct, frozen=True):
    """One redirection. The target of `>&` is a descriptor or `-`, that of `<<` is the here-document's text."""

    descriptor: str
    operator: str
    target: Word


class SimpleCommand(Struct, frozen=True):
    """One simple command: assignments in front, the words, the redirections in their order."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, str], ...] = ()
    redirections: tuple[Redirection, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The words as text. A word with a glob stands for words that are not known."""
        return tuple(word.text for word in self.words)


class Line(Struct, frozen=True):
    """The simple commands of a line in their order; `joins[n]` is between command n and the next."""

    commands: tuple[SimpleCommand, ...]
    joins: tuple[Join, ...] = ()


class Unreadable(Struct, frozen=True):
    """A line outside the subset, and why."""

    reason: str


class _Refused(Exception):
    """The reason why a line is refused, raised inside the reader."""


def read_line(text: str) -> Line | Unreadable:
    """Return the commands of a shell line, or the reason why it cannot be read."""
    try:
        return _Reader(text).read()
    except _Refused as refused:
        return Unreadable(str(refused))


class _Piece:
    """A word while it is read."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.fixed: str | None = None
        self.is_home = self.has_brace = False
        self.first_quoted: int | None = None  # how many of `letters` stand before the first quote or escape

    @property
    def text(self) -> str:
        return "".join(self.letters)

    @property
    def unquoted(self) -> str:
        """What stands before the first quote or escape."""
        return "".join(self.letters[: self.first_quoted])

    def add_quoted(self, letters: str) -> None:
        if self.first_quoted is None:
            self.first_quoted = len(self.letters)
        self.letters.append(letters)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.quoted = 0  # letters inside quotes and here-documents
        self.pieces = self.word_count = 0
        self.commands: list[SimpleCommand] = []
        self.joins: list[Join] = []
        self.words: list[Word] = []
        self.assignments: list[tuple[str, str]] = []
        self.redirections: list[Redirection] = []
        # Here-documents that began on this line: delimiter, whether tabs are stripped.
        self.waiting: list[tuple[str, bool]] = []
        self.documents: list[str] = []
        self.needs_command = False  # after `&&`, `||` and `|`

    def read(self) -> Line:
        if _CONTROL.search(self.text):
            raise _Refused("it has control characters")
        while self.position < len(self.text):
            self._step()
        if self.waiting:
            raise _Refused("a here-document has no end")
        self._end_command("seq")
        if self.needs_command or not self.commands:
            raise _Refused("a command is missing")
        commands = self._with_documents() if self.documents else self.commands
        return Line(tuple(commands), tuple(self.joins[: len(commands) - 1]))

    def _with_documents(self) -> list[SimpleCommand]:
        """Return the commands with the texts of their here-documents, which stand after the line that names them."""
        texts = iter(self.documents)
        return [
            SimpleCommand(
                command.words,
                command.assignments,
                tuple(
                    Redirection(found.descriptor, "<<", Word(next(texts))) if found.operator == "<<" else found
                    for found in command.redirections
                ),
            )
            for command in self.commands
        ]

    def _count(self) -> None:
        self.pieces += 1
        if self.pieces > MAX_PIECES or self.position - self.quoted > MAX_LETTERS:
            raise _Refused("it is too long")

    def _step(self) -> None:
        self._count()
        text, position = self.text, self.position
        letter = text[position]
        if letter in " \t":
            self.position += 1
        elif letter == "\n":
            self.position += 1
            self._end_command("seq")
            self._read_documents()
        elif letter == "#":
            end = text.find("\n", position)
            self.position = len(text) if end < 0 else end
            self.quoted += self.position - position
        elif text.startswith("\\\n", position):
            self._refuse_if_waiting()
            self.position += 2
        elif (found := _REDIRECTION.match(text, position)) is not None:
            self._read_redirection(found)
        elif letter in ";&|":
            self._read_operator()
        else:
            self._take_word(self._read_word())

    def _refuse_if_waiting(self) -> None:
        # Shells differ in where the text of the here-document then starts.
        if self.waiting:
            raise _Refused("a line goes on after a here-document began")

    def _read_operator(self) -> None:
        found = _OPERATOR.match(self.text, self.position)
        join = _JOINS.get(found[0]) if found else None
        if found is None or join is None:
            raise _Refused("it runs something in the background, or has an operator that is not read")
        if not (self.words or self.assignments or self.redirections):
            raise _Refused("a command is missing")
        self.position = found.end()
        self._end_command(join)
        self.needs_command = join != "seq"

    def _end_command(self, join: Join) -> None:
        if not self.words:
            if self.assignments or self.redirections:
                raise _Refused("an assignment or a redirection stands alone")
            return
        if len(self.commands) == MAX_PARTS:
            raise _Refused(f"it has more than {MAX_PARTS} parts")
        self.commands.append(SimpleCommand(tuple(self.words), tuple(self.assignments), tuple(self.redirections)))
        self.joins.append(join)
        self.words, self.assignments, self.redirections = [], [], []
        self.needs_command = False

    def _take_word(self, piece: _Piece) -> None:
        # A bracket alone is not a glob: it is the name of a program.
        word = Word(piece.text, None if piece.text == "[" else piece.fixed, piece.is_home)
        if not self.words:
            unquoted = piece.unquoted
            assigned = _ASSIGNMENT.match(unquoted)
            if assigned:
                self.assignments.append((assigned[1], word.text[assigned.end() :]))
                return
            _check_program(word, unquoted)
        self.words.append(word)
        self.word_count += 1
        if self.word_count > MAX_WORDS:
            raise _Refused(f"it has more than {MAX_WORDS} words")

    def _read_word(self) -> _Piece:
        piece = _Piece()
        text = self.text
        while self.position < len(text):
            letter = text[self.position]
            if letter in " \t\n;&|<>":
                break
            if letter in "'\"\\":
                self._read_quoted(piece, letter)
            else:
                self._read_unquoted(piece, letter)
            self._count()
        if self.position < len(text) and text[self.position] in "<>" and piece.text.endswith("}"):
            raise _Refused("a descriptor is named by a variable")
        return piece

    def _read_quoted(self, piece: _Piece, letter: str) -> None:
        start = self.position
        if letter == "\\":
            escaped = self.text[start + 1 : start + 2]
            if not escaped or not (escaped.isprintable() or escaped == "\t"):
                raise _Refused("a backslash stands before a line break, or at the end")
            piece.add_quoted(escaped)
            self.position += 2
            return
        if letter == "'":
            end = self.text.find("'", start + 1)
            if end < 0:
                raise _Refused("a quote is not closed")
            piece.add_quoted(self.text[start + 1 : end])
            self.position = end + 1
        else:
            self._read_double_quoted(piece)
        if self.waiting and "\n" in self.text[start : self.position]:
            self._refuse_if_waiting()
        self.quoted += self.position - start

    def _read_double_quoted(self, piece: _Piece) -> None:
        piece.add_quoted("")
        start = self.position + 1
        while True:
            found = _SPECIAL_IN_DOUBLE_QUOTES.search(self.text, start)
            if found is None:
                raise _Refused("a quote is not closed")
            end = found.start()
            piece.letters.append(self.text[start:end])
            if found[0] == '"':
                self.position = end + 1
                return
            if found[0] == "`" or _EXPANDING_IN_QUOTES.match(self.text, end):
                raise _Refused("it has a substitution or a variable")
            following = self.text[end + 1 : end + 2]
            if found[0] == "$":
                piece.letters.append("$")
                start = end + 1
            elif following == "\n":
                raise _Refused("a backslash stands before a line break, or at the end")
            else:
                piece.letters.append(following if following in ("$", "`", '"', "\\") else "\\" + following)
                start = end + 2
            self.pieces += 1
            if self.pieces > MAX_PIECES:
                raise _Refused("it is too long")

    def _read_unquoted(self, piece: _Piece, letter: str) -> None:
        text, position = self.text, self.position
        if letter == "`" or (letter == "$" and _EXPANDING.match(text, position)):
            raise _Refused("it has a substitution or a variable")
        if letter in "()":
            raise _Refused("it has a subshell, a function or a group")
        if letter == "~":
            self._check_tilde(piece)
        if letter in "*?[" and piece.fixed is None:
            piece.fixed = piece.text
        if letter == "{":
            piece.has_brace = True
        found = _PLAIN.match(text, position)
        letters = found[0] if found else letter
        if not letters.isprintable():
            raise _Refused("it has invisible characters outside quotes")
        # Quotes inside braces do not matter here: refused rather too often.
        piece.letters.append(letters)
        self.position += len(letters)
        if piece.has_brace and ("," in letters or ".." in letters):
            raise _Refused("it has a brace expansion")

    def _check_tilde(self, piece: _Piece) -> None:
        following = self.text[self.position + 1 : self.position + 2]
        if not piece.letters:
            if following and following not in "/ \t\n;&|<>":
                raise _Refused("`~` names another user's home")
            piece.is_home = True
        elif piece.letters[-1][-1:] in ("=", ":"):
            raise _Refused("`~` is expanded inside a word")

    def _read_redirection(self, found: re.Match[str]) -> None:
        self.position = found.end()
        descriptor, operator = found[1], found[2]
        if operator in ("<<", "<<-"):
            delimiter = _DELIMITER.match(self.text, self.position)
            if delimiter is None:
                raise _Refused("the delimiter of a here-document is not quoted")
            self.position = delimiter.end()
            self.waiting.append((delimiter[1] or delimiter[2] or delimiter[3], operator == "<<-"))
            self.redirections.append(Redirection(descriptor, "<<", Word("")))
            return
        if operator not in _OPERATORS or len(descriptor) > 3:
            raise _Refused(f"the redirection {operator} is not read")
        piece = self._read_word()
        target = piece.text
        if operator in (">&", "<&"):
            if piece.first_quoted is not None or not _DESCRIPTOR.fullmatch(target):
                raise _Refused(f"what follows {operator} is not a descriptor")
        elif piece.fixed is not None or not target:
            raise _Refused("the file of a redirection is a glob or missing")
        self.redirections.append(Redirection(descriptor, operator, Word(target, None, piece.is_home)))

    def _read_documents(self) -> None:
        for delimiter, strips_tabs in self.waiting:
            tabs = "\t*" if strips_tabs else ""
            end = re.compile(f"^{tabs}{re.escape(delimiter)}$", re.MULTILINE).search(self.text, self.position)
            if end is None:
                raise _Refused("a here-document has no end")
            body = self.text[self.position : end.start()]
            self.documents.append(_LEADING_TABS.sub("", body) if strips_tabs else body)
            self.quoted += end.end() - self.position
            # The line break after the delimiter belongs to it.
            self.position = min(end.end() + 1, len(self.text))
        self.waiting = []


def _check_program(word: Word, unquoted: str) -> None:
    """Raises: _Refused if this word does not name a program."""
    if _ODD_ASSIGNMENT.match(unquoted):
        raise _Refused("it changes a variable in a way that is not read")
    if word.fixed is not None:
        raise _Refused("a glob stands where a program is named")
    if not word.text:
        raise _Refused("the name of a program is empty")
    if word.text in _RESERVED and unquoted == word.text:
        raise _Refused(f"`{word.text}` is a word of the shell's own language")
    # zsh replaces `=ls` by a path; bash takes `%1` for a job, even when the letter is quoted.
    if word.text[0] in "=%":
        raise _Refused(f"the name of a program starts with {word.text[0]}")
