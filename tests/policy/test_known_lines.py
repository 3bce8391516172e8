"""A deny holds in every spelling that is known, and what is harmless is not asked about more often for that."""

from __future__ import annotations

from tests.policy.lines import RUN_IN, Known, attacks, everyday_lines, judged, known_lines, recorded_lines

# How many of the recorded lines may be asked about: the number before unknown words asked, and six of a hundred lines.
MOST_ASKED = {
    ("execute:rm -rf *", "execute:git push *", "execute:npm publish *"): 111 + 52,
    ("read:.env", "read:secrets/**", "edit:.github/**"): 191 + 52,
    ("execute:sudo *", "execute:curl *", "execute:wget *", "execute:ssh *"): 106 + 52,
    ("execute:git push --force *", "execute:git reset --hard *", "execute:git commit *", "execute:rm *"): 104 + 52,
    ("execute:npm install *", "execute:pip install *", "execute:docker *", "execute:apt-get *"): 96 + 52,
}
MOST_HONEST_ASKED = 14
ORDINARY = ("execute:rm -rf *", "execute:git push *", "read:.env")
MOST_EVERYDAY_ASKED = 69  # of 401, as many as before unknown words asked


def test_no_line_that_does_what_is_denied_is_allowed() -> None:
    lines = known_lines("spellings")
    allowed = [f"{known.kind}, {known.denies}: {known.line!r}" for known in lines if is_allowed(known, RUN_IN)]
    assert len(lines) == 585
    assert not allowed, "\n".join((f"{len(allowed)} lines", *allowed))


def test_no_line_that_was_invented_to_get_around_a_rule_is_allowed() -> None:
    lines = attacks()
    allowed = [f"{known.denies[0]}: {known.line!r}" for known in lines if is_allowed(known)]
    assert len(lines) > 3000
    assert not allowed, "\n".join((f"{len(allowed)} lines", *allowed))


def test_lines_of_many_languages_and_tools_are_seldom_asked_about() -> None:
    lines = everyday_lines()
    asked = [f"{line!r}: {why}" for line in lines if (why := _why_not_allowed(line, ORDINARY))]
    assert len(asked) <= MOST_EVERYDAY_ASKED, "\n".join((f"{len(asked)} of {len(lines)} lines", *asked))


def test_everyday_lines_that_do_nothing_denied_are_seldom_asked_about() -> None:
    lines = known_lines("honest")
    asked = [f"{known.line!r}: {why}" for known in lines if (why := _why_not_allowed(known.line, known.denies, RUN_IN))]
    assert len(lines) == 263
    assert len(asked) <= MOST_HONEST_ASKED, "\n".join((f"{len(asked)} lines", *asked))


def test_recorded_lines_are_seldom_asked_about_whatever_is_denied() -> None:
    lines = recorded_lines()
    assert len(lines) == 866
    for denies, most in MOST_ASKED.items():
        verdicts = [(line, judged(line, denies)) for line in lines]
        asked = [f"{line!r}: {verdict.why}" for line, verdict in verdicts if verdict.action == "ask"]
        assert len(asked) <= most, "\n".join((f"{len(asked)} lines under the denies {denies}", *asked))


def is_allowed(known: Known, *root: str) -> bool:
    return judged(known.line, known.denies, *root).action == "allow"


def _why_not_allowed(line: str, denies: tuple[str, ...], *root: str) -> str | None:
    verdict = judged(line, denies, *root)
    return None if verdict.action == "allow" else verdict.why
