"""The report of opening hours."""

from intervals import merge


def rows(week):
    """Return one line for each interval of each day."""
    return [f"{day}  {start}-{end}" for day, intervals in week.items() for start, end in merge(intervals)]
