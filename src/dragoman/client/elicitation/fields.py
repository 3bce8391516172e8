"""The fields of a form: what to type, the value of a typed line, and why a line is not accepted.

A value accepted here fits the field's schema (rules 309, 313). Pure except for `fits_pattern`: a regular expression of
a peer can run forever, so it runs in a process that can be killed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    Value: TypeAlias = "str | int | float | bool | Sequence[str]"
    Known: TypeAlias = (
        v1.StringPropertySchema
        | v1.NumberPropertySchema
        | v1.IntegerPropertySchema
        | v1.BooleanPropertySchema
        | v1.MultiSelectPropertySchema
    )

LEFT_OUT: Final = "-"  # typed to leave out an optional field that has a default
_YES: Final = frozenset({"y", "yes", "true"})
_NO: Final = frozenset({"n", "no", "false"})
_INT64: Final = 2**63
_PATTERN_SECONDS: Final = 1.0
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)*")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")
_SECRET: Final = re.compile(
    r"pass(?:word|phrase|code)|secret|credential|api.?key|private.?key|access.?key|(?:auth|access|bearer|api|login).?token"
    r"|\btoken\b|\bpin\b|\bcvv\b|\botp\b",
    re.IGNORECASE,
)


class FieldError(ValueError):
    """Why a line is not accepted; the text completes a sentence that begins with the line."""


class Selectable:
    """One value that can be chosen."""

    __slots__ = ("description", "title", "value")

    def __init__(self, value: str, title: str = "", description: str = "") -> None:
        self.value = value
        self.title = title or value
        self.description = description


def selectables(schema: Known) -> list[Selectable] | None:
    """Return the values to choose from; None for a field without a list."""
    match schema:
        case v1.StringPropertySchema(one_of=[*options]) if options:
            return [_selectable(option) for option in options]
        case v1.StringPropertySchema(enum=[*values]) if values:
            return [Selectable(value) for value in values]
        case v1.MultiSelectPropertySchema(items=v1.StringMultiSelectItems(enum=values)):
            return [Selectable(value) for value in values]
        case v1.MultiSelectPropertySchema(items=v1.TitledMultiSelectItems(any_of=options)):
            return [_selectable(option) for option in options]
    return None


def _selectable(option: v1.EnumOption) -> Selectable:
    return Selectable(option.const, option.title, option.description if isinstance(option.description, str) else "")


def is_secret(name: str, schema: Known) -> bool:
    """Return whether the field looks like a secret, which an agent must not ask for in a form (rule 311)."""
    words = (name, name.replace("_", " "), schema.title, schema.description)
    return any(isinstance(word, str) and _SECRET.search(word) is not None for word in words)


def default_of(schema: Known) -> Value | None:
    """Return the default, if it fits the schema's own limits."""
    default = schema.default
    if default is UNSET or default is None:
        return None
    try:
        return check(default, schema)
    except FieldError:
        return None


def expects(schema: Known) -> str:
    """Describe what to type."""
    match schema:
        case v1.BooleanPropertySchema():
            return "y or n"
        case v1.IntegerPropertySchema() | v1.NumberPropertySchema():
            what = "a whole number" if isinstance(schema, v1.IntegerPropertySchema) else "a number"
            return what + _between(schema.minimum, schema.maximum)
        case v1.MultiSelectPropertySchema():
            return "numbers, with spaces between" + _counted(schema.min_items, schema.max_items)
        case v1.StringPropertySchema() if selectables(schema):
            return "a number"
    formats = {"email": "an e-mail address", "uri": "an address like https://…", "date": "a date like 2026-01-31",
               "date-time": "a time like 2026-01-31T12:00:00Z"}  # fmt: skip
    what = formats.get(schema.format, "text") if isinstance(schema.format, str) else "text"
    pattern = f", matching {schema.pattern}" if isinstance(schema.pattern, str) else ""
    return what + _counted(schema.min_length, schema.max_length, " long") + pattern


def _between(least: object, most: object) -> str:
    low = f" from {least}" if isinstance(least, int | float) else ""
    high = f" up to {most}" if isinstance(most, int | float) else ""
    return low + high


def _counted(least: object, most: object, unit: str = "") -> str:
    low = f"at least {least}" if isinstance(least, int) and least else ""
    high = f"at most {most}" if isinstance(most, int) else ""
    both = " and ".join(part for part in (low, high) if part)
    return f", {both}{unit}" if both else ""


def read(line: str, schema: Known) -> Value:
    """Return the value of a typed line.

    Raises: FieldError with the reason if it does not fit.
    """
    match schema:
        case v1.BooleanPropertySchema():
            return _boolean(line)
        case v1.IntegerPropertySchema():
            if not re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", line):
                raise FieldError("is not a whole number")
            return check(int(line), schema)
        case v1.NumberPropertySchema():
            return check(_number(line), schema)
        case v1.MultiSelectPropertySchema():
            words = [] if line.strip() == LEFT_OUT else line.replace(",", " ").split()
            options = selectables(schema) or []
            return check(list(dict.fromkeys(_selected(word, options) for word in words)), schema)
    options = selectables(schema) or []
    return check(_selected(line.strip(), options) if options else line, schema)


def _boolean(line: str) -> bool:
    word = line.strip().lower()
    if word not in _YES | _NO:
        raise FieldError("is neither y nor n")
    return word in _YES


def _number(line: str) -> int | float:
    word = line.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,18}", word):
        return int(word)
    try:
        value = float(word) if word.isascii() and "_" not in word else float("nan")
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        raise FieldError("is not a number")
    return value


def _selected(word: str, options: Sequence[Selectable]) -> str:
    """Find an option by its number, or by its name if the name does not look like a number."""
    if word.isascii() and word.isdigit():
        if 1 <= int(word[:9]) <= len(options):
            return options[int(word) - 1].value
    else:
        found = {option.value for option in options if word in (option.value, option.title)}
        if len(found) == 1:
            return found.pop()
    raise FieldError(f"is not a number from 1 to {len(options)}")


def check(value: Value, schema: Known) -> Value:
    """Return the value if it fits the schema's limits; the pattern is checked elsewhere.

    Raises: FieldError with the reason if it does not.
    """
    match schema:
        case v1.BooleanPropertySchema() if isinstance(value, bool):
            return value
        case v1.IntegerPropertySchema() if isinstance(value, int) and not isinstance(value, bool):
            if not -_INT64 <= value < _INT64:
                raise FieldError("is too large")
            return _within(value, schema.minimum, schema.maximum)
        case v1.NumberPropertySchema() if isinstance(value, int | float) and not isinstance(value, bool):
            return _within(value, schema.minimum, schema.maximum)
        case v1.MultiSelectPropertySchema() if isinstance(value, list | tuple):
            return _items(value, schema)
        case v1.StringPropertySchema() if isinstance(value, str):
            return _text(value, schema)
    raise FieldError("is of the wrong type")


def _within(value: int | float, least: object, most: object) -> int | float:
    if isinstance(least, int | float) and value < least:
        raise FieldError(f"is less than {least}")
    if isinstance(most, int | float) and value > most:
        raise FieldError(f"is more than {most}")
    return value


def _items(values: Sequence[str], schema: v1.MultiSelectPropertySchema) -> list[str]:
    known = [option.value for option in selectables(schema) or ()]
    if any(value not in known for value in values):
        raise FieldError("is not among the choices")
    if isinstance(schema.min_items, int) and len(values) < schema.min_items:
        raise FieldError(f"is too few: choose at least {schema.min_items}")
    if isinstance(schema.max_items, int) and len(values) > schema.max_items:
        raise FieldError(f"is too many: choose at most {schema.max_items}")
    return list(values)


def _text(value: str, schema: v1.StringPropertySchema) -> str:
    options = selectables(schema)
    if options is not None and value not in [option.value for option in options]:
        raise FieldError("is not among the choices")
    if isinstance(schema.min_length, int) and len(value) < schema.min_length:
        raise FieldError(f"is too short: at least {schema.min_length} letters")
    if isinstance(schema.max_length, int) and len(value) > schema.max_length:
        raise FieldError(f"is too long: at most {schema.max_length} letters")
    if isinstance(schema.format, str) and not has_format(value, schema.format):
        raise FieldError(f"is not {expects(v1.StringPropertySchema(format=schema.format))}")
    return value


def has_format(value: str, name: str) -> bool:
    """Return whether the text has this format; True for unknown formats."""
    from datetime import date, datetime

    try:
        match name:
            case "email":
                return _EMAIL.fullmatch(value) is not None
            case "uri":
                return _URI.fullmatch(value) is not None
            case "date":
                return _DATE.fullmatch(value) is not None and bool(date.fromisoformat(value))
            case "date-time":
                return _DATE_TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value.upper()))
    except ValueError:  # the 31st of February
        return False
    return True


def fits_pattern(value: str, pattern: str) -> bool | None:
    """Return whether the pattern matches, or None if that cannot be found out. Blocks for a second at most."""
    import subprocess
    import sys

    program = "import re, sys; sys.exit(0 if re.search(sys.argv[1], sys.argv[2]) else 3)"
    command = [sys.executable, "-I", "-S", "-c", program, pattern.replace("\0", ""), value.replace("\0", "")]
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=_PATTERN_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {0: True, 3: False}.get(done.returncode)
