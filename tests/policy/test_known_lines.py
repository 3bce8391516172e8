"""A deny holds in every spelling that is known, and what is harmless is not asked about more often for that."""

from __future__ import annotations

from tests.policy.lines import judged, known_lines, recorded_lines

# How many of the recorded lines may be asked about: the number before unknown words asked, and six of a hundred lines.
MOST_ASKED = {
    ("execute:rm -rf *", "execute:git push *", "execute:npm publish *"): 111 + 52,
    ("read:.env", "read:secrets/**", "edit:.github/**"): 191 + 52,
    ("execute:sudo *", "execute:curl *", "execute:wget *", "execute:ssh *"): 106 + 52,
    ("execute:git push --force *", "execute:git reset --hard *", "execute:git commit *", "execute:rm *"): 104 + 52,
    ("execute:npm install *", "execute:pip install *", "execute:docker *", "execute:apt-get *"): 96 + 52,
}
MOST_HONEST_ASKED = 14


def test_everyday_lines_that_do_nothing_denied_are_seldom_asked_about() -> None:
    lines = known_lines("honest")
    asked = [f"{known.line!r}: {why}" for known in lines if (why := _why_not_allowed(known.line, known.denies))]
    assert len(lines) == 263
    assert len(asked) <= MOST_HONEST_ASKED, "\n".join((f"{len(asked)} lines", *asked))


def test_recorded_lines_are_seldom_asked_about_whatever_is_denied() -> None:
    lines = recorded_lines()
    assert len(lines) == 866
    for denies, most in MOST_ASKED.items():
        verdicts = [(line, judged(line, denies)) for line in lines]
        asked = [f"{line!r}: {verdict.why}" for line, verdict in verdicts if verdict.action == "ask"]
        assert len(asked) <= most, "\n".join((f"{len(asked)} lines under the denies {denies}", *asked))


def _why_not_allowed(line: str, denies: tuple[str, ...]) -> str | None:
    verdict = judged(line, denies)
    return None if verdict.action == "allow" else verdict.why
