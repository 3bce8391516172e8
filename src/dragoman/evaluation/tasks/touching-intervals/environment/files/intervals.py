"""Intervals of whole hours, as pairs of start and end; the end does not belong to the interval."""


def merge(intervals):
    """Return the intervals in order, with those that overlap or touch joined."""
    merged = []
    for start, end in sorted(intervals):
        if end <= start:
            raise ValueError(f"the interval {start}-{end} is empty")
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def total(intervals):
    """Return how many hours the intervals cover."""
    return sum(end - start for start, end in merge(intervals))


def gaps(intervals):
    """Return the free intervals between the given ones."""
    merged = merge(intervals)
    return [(first[1], second[0]) for first, second in zip(merged, merged[1:])]
