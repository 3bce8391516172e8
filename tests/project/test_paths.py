"""How many functions the work of users passes through stays below what `tools/paths.py` keeps; it prints the table."""

from __future__ import annotations

from tools.paths import ANY, KEPT, Numbers, count_paths, too_much


def test_no_path_has_become_longer() -> None:
    counted = count_paths()
    assert counted.keys() == KEPT.keys()
    # On a busy machine a timer of another part may become due on the way, in every run that of another part: what the
    # work itself takes is the least of each number. Only the paths that seem longer are run again.
    for _ in range(4):
        longer = too_much(counted)
        if not longer:
            break
        counted = least(counted, count_paths(sorted({line[0] for line in longer})))
    assert not longer, "make paths prints the whole table; " + "; ".join(longer)


def least(one: dict[str, Numbers], other: dict[str, Numbers]) -> dict[str, Numbers]:
    """The smaller one of each number; of a path that was run once, its own."""
    return {path: Numbers(*map(min, numbers, other.get(path, numbers))) for path, numbers in one.items()}


def test_a_path_that_has_become_longer_is_named() -> None:
    same = dict(KEPT)
    assert not too_much(same)
    kept = KEPT["d write"]
    within = kept._replace(functions=int(kept.functions * 1.05), disk=kept.disk)
    assert not too_much({**same, "d write": within})
    assert too_much({**same, "d write": kept._replace(judged=kept.judged + 1)}) == [
        f"d write: {kept.judged + 1} judged, kept at {kept.judged}"
    ]
    assert len(too_much({"a exec": Numbers(*(ANY - 1,) * 8)})) == 6
