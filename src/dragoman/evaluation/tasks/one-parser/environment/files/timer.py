"""Timers, from their description."""


def parse_duration(text):
    """Return the seconds of a text such as `1h 30min`, `2 days` or `-90s`. Raises: ValueError."""
    if not isinstance(text, str):
        raise TypeError("a duration is a text")
    rest = text.strip().lower()
    if not rest:
        raise ValueError("a duration must not be empty")
    sign = 1
    if rest[0] == "-":
        sign = -1
        rest = rest[1:].lstrip()
    elif rest[0] == "+":
        rest = rest[1:].lstrip()
    if not rest:
        raise ValueError(f"{text!r} has a sign and no number")
    total = 0.0
    seen = []
    while rest:
        end = 0
        dots = 0
        while end < len(rest) and (rest[end].isdigit() or rest[end] == "."):
            if rest[end] == ".":
                dots += 1
            end += 1
        if end == 0:
            raise ValueError(f"{text!r}: a number is expected at {rest!r}")
        if dots > 1 or rest[:end] == ".":
            raise ValueError(f"{text!r}: {rest[:end]!r} is not a number")
        number = float(rest[:end])
        rest = rest[end:].lstrip()
        end = 0
        while end < len(rest) and rest[end].isalpha():
            end += 1
        unit = rest[:end]
        rest = rest[end:].lstrip()
        if unit == "ms":
            factor = 0.001
        elif unit == "s":
            factor = 1
        elif unit == "sec":
            factor = 1
        elif unit == "second":
            factor = 1
        elif unit == "seconds":
            factor = 1
        elif unit == "m":
            factor = 60
        elif unit == "min":
            factor = 60
        elif unit == "minute":
            factor = 60
        elif unit == "minutes":
            factor = 60
        elif unit == "h":
            factor = 3600
        elif unit == "hour":
            factor = 3600
        elif unit == "hours":
            factor = 3600
        elif unit == "d":
            factor = 86400
        elif unit == "day":
            factor = 86400
        elif unit == "days":
            factor = 86400
        elif unit == "w":
            factor = 604800
        elif unit == "week":
            factor = 604800
        elif unit == "weeks":
            factor = 604800
        elif unit == "":
            if seen or rest:
                raise ValueError(f"{text!r}: a unit is missing")
            factor = 1
        else:
            raise ValueError(f"{text!r}: {unit!r} is not a unit")
        if factor in seen:
            raise ValueError(f"{text!r}: a unit occurs twice")
        if seen and factor > seen[-1]:
            raise ValueError(f"{text!r}: the units are not in order")
        seen.append(factor)
        total += number * factor
        if rest and rest[0] == ",":
            rest = rest[1:].lstrip()
            if not rest:
                raise ValueError(f"{text!r} ends with a comma")
    return sign * total


class Timer:
    """Counts down."""

    def __init__(self, text):
        self.seconds = parse_duration(text)

    def is_over(self, elapsed):
        """Whether the time is up after so many seconds."""
        return elapsed >= self.seconds
