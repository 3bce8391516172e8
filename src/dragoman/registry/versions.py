"""Version ranges of `package.json`, such as `>=20`, `^18.17 || >=20.5` and `22.x`."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"(>=|<=|>|<|=|\^|~)?\s*v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:[-+][\w.+-]*)?")
_Version = tuple[int, int, int]


def fits(version: str, wanted: str) -> bool | None:
    """Return whether `version` is in the range `wanted`; None if one of the two cannot be understood."""
    have = _PART.fullmatch(version.strip())
    if have is None or have[1] or not all(have[place] and have[place].isdigit() for place in (2, 3, 4)):
        return None
    number = (int(have[2]), int(have[3]), int(have[4]))
    answers = [_fits_all(number, part) for part in wanted.split("||")]
    if True in answers:
        return True
    return None if None in answers else False


def _fits_all(version: _Version, text: str) -> bool | None:
    if text.strip() in ("", "*", "x", "latest"):
        return True
    if between := re.fullmatch(r"\s*(\S+)\s+-\s+(\S+)\s*", text):
        text = f">={between[1]} <={between[2]}"
    rest = _PART.sub("", text).strip()
    if rest:
        return None
    return all(_fits_one(version, part) for part in _PART.finditer(text))


def _fits_one(version: _Version, part: re.Match[str]) -> bool:
    numbers = [int(part[place]) for place in (2, 3, 4) if part[place] and part[place].isdigit()]
    low: _Version = (*numbers, 0, 0, 0)[:3]  # type: ignore[assignment]  # three of them
    match part[1]:
        case ">=":
            return version >= low
        case ">":
            return version >= _after(low, len(numbers))
        case "<":
            return version < low
        case "<=":
            return version < _after(low, len(numbers))
        case "^":
            first = next((place for place, number in enumerate(low) if number), max(len(numbers) - 1, 0))
            return low <= version < _after(low, min(first, len(numbers) - 1) + 1)
        case "~":
            return low <= version < _after(low, min(len(numbers), 2))
        case _:
            return not numbers or low <= version < _after(low, len(numbers))


def _after(version: _Version, places: int) -> _Version:
    """Return the first version after all that start with the same numbers; `places` says how many are compared."""
    numbers = list(version[:places])
    numbers[-1] += 1
    return (*numbers, 0, 0, 0)[:3]  # type: ignore[return-value]  # three of them
