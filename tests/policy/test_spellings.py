"""Nothing that really runs a denied command is allowed: new spellings in each run, shown by a real bash.

Each test makes lines of one class, runs them against stubs, and compares what ran with the judgement. `make soak` makes
ten times as many.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.policy import Command, Request, judge, parse_rule
from tests import machine
from tests.policy.spellings import families, files, honest, layers, texts, tools
from tests.policy.spellings.quoting import joined
from tests.policy.spellings.real_bash import RealBash

pytestmark = [machine.needs("bash", "git"), pytest.mark.hypothesis]

RM = "execute:rm *"
COMMIT = "git add . && git commit -qm x && echo y >> words.txt && git commit -qam y && echo z >> words.txt"


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[RealBash]:
    """A bash whose only stub in its `PATH` is rm."""
    with RealBash(tmp_path, ["rm"]) as made:
        yield made


@pytest.fixture
def all_stubs(tmp_path: Path) -> Iterator[RealBash]:
    """A bash with stubs of every program that has denied subcommands."""
    with RealBash(tmp_path, families.STUBS) as made:
        yield made


def repository(bash: RealBash) -> None:
    """Makes the folder a repository with two commits and a change."""
    bash.runs(f"git init -q && printf '.env\\nsecrets\\n' > .git/info/exclude && {COMMIT}")


def actions(bash: RealBash, line: str, rule: str) -> set[str]:
    """What the judge says about a line, sent as a line and as words, if the rule denies and if it asks."""
    root, home = str(bash.place), str(bash.home)
    found: set[str] = set()
    for action in ("deny", "ask"):
        rules = [parse_rule("*", "allow", "flag"), parse_rule(rule, action, "flag")]
        for command in (Command(line=line), Command(("bash", "-lc", line))):
            found.add(judge(rules, Request("a", "execute", command=command, root=root, home=home)).action)
    return found


def show(make: Callable[[Random], tuple[str, bool]], bash: RealBash, rule: Callable[[], str], least: float) -> None:
    """Compares what ran with the judgement, and fails if too few lines ran anything to show something.

    `make` returns a line and whether it did what `rule` denies.
    """
    tried = ran = 0

    @given(st.randoms(use_true_random=False))
    def compare(random: Random) -> None:
        nonlocal tried, ran
        line, is_run = make(random)
        tried += 1
        ran += is_run
        if is_run:
            assert "allow" not in actions(bash, line, rule()), f"{line!r} runs although {rule()} is denied"

    compare()
    assert ran >= least * tried, f"only {ran} of {tried} lines ran what is denied"


def runs_rm(bash: RealBash, spell: Callable[[Random], str]) -> Callable[[Random], tuple[str, bool]]:
    """Lines of `spell`, and whether they ran rm."""

    def make(random: Random) -> tuple[str, bool]:
        line = spell(random).replace("BIN", str(bash.stubs)).replace("ELSEWHERE", str(bash.elsewhere))
        return line, bool(bash.runs(line))

    return make


def rm_words(random: Random) -> list[str]:
    """A denied command, in plain words."""
    program = random.choice(("rm", "rm", "rm", "rm", "/bin/rm", "/usr/bin/rm", "BIN/rm"))
    return [program, *random.choice(("", "", "-f", "-rf", "-v", "--")).split(), "victim"]


def rm_line(random: Random) -> str:
    return joined(rm_words(random), random)


SPELLERS: dict[str, Callable[[Random], str]] = {
    "quotes": rm_line,
    "a wrapper": lambda random: joined(layers.wrapper(rm_words(random), random), random),
    "wrappers of wrappers": lambda random: joined(
        layers.wrapper(layers.wrapper(layers.wrapper(rm_words(random), random), random), random), random
    ),
    "a wrapper and a shell": lambda random: joined(
        layers.wrapper(layers.shell(rm_line(random), random), random), random
    ),
    "words of the shell": lambda random: joined(layers.builtin_wrapper(rm_words(random), random), random),
    "a shell": lambda random: joined(layers.shell(rm_line(random), random), random),
    "a program that runs a line": lambda random: joined(layers.line_runner(rm_line(random), random), random),
    "the grammar": lambda random: layers.group(rm_line(random), random),
    "evaluation": lambda random: layers.evaluation(rm_line(random), random),
    "the program from data": lambda random: layers.from_data(["rm", "victim"], "BIN", random),
    "a program elsewhere": lambda random: layers.elsewhere("ELSEWHERE", random),
    "layers of all kinds": lambda random: layers.layered(rm_words(random), random),
    "words and variables of tools": lambda random: tools.tool_runs(" ".join(rm_words(random)), random),
}
# Not every line works: quotes inside of quotes, a program that is not here.
LEAST = {
    "words and variables of tools": 0.4,
    "layers of all kinds": 0.3,
    "evaluation": 0.5,
    "the program from data": 0.5,
}


@pytest.mark.parametrize("kind", SPELLERS)
def test_a_line_that_runs_a_denied_program_is_never_allowed(bash: RealBash, kind: str) -> None:
    show(runs_rm(bash, SPELLERS[kind]), bash, lambda: RM, LEAST.get(kind, 0.6))


def test_a_line_in_which_git_runs_a_denied_program_is_never_allowed(bash: RealBash) -> None:
    repository(bash)
    show(runs_rm(bash, lambda random: tools.git_runs(" ".join(rm_words(random)), random)), bash, lambda: RM, 0.5)


@pytest.mark.soak
def test_wrappers_that_take_long_to_start_hide_nothing(bash: RealBash) -> None:
    spell = runs_rm(bash, lambda random: joined(layers.slow_wrapper(rm_words(random), random), random))
    show(spell, bash, lambda: RM, 0.0)


@pytest.mark.parametrize("kind", ["words", "options"])
@pytest.mark.parametrize("is_wrapped", [False, True], ids=["plain", "wrapped"])
def test_other_words_for_a_denied_command_are_never_allowed(all_stubs: RealBash, kind: str, is_wrapped: bool) -> None:
    rule = ""

    def make(random: Random) -> tuple[str, bool]:
        nonlocal rule
        rule, words = (families.other_words if kind == "words" else families.other_options)(random)
        line = layers.layered(words, random, most=1) if is_wrapped else joined(words, random)
        return line, tuple(words) in all_stubs.runs(line)

    show(make, all_stubs, lambda: rule, 0.5 if is_wrapped else 0.9)


@pytest.mark.skipif(sys.platform != "linux", reason="only the kernel of Linux tells which files are opened")
@pytest.mark.parametrize(
    ("rule", "happens", "spell"),
    [("read:.env", "read", files.reading_line), ("edit:secrets/**", "written", files.writing_line)],
    ids=["read", "written"],
)
def test_a_line_that_opens_a_denied_file_is_never_allowed(
    bash: RealBash, rule: str, happens: str, spell: Callable[[Random], str]
) -> None:
    repository(bash)
    watch = files.Watch(bash.place)

    def make(random: Random) -> tuple[str, bool]:
        line = spell(random)
        watch.seen()
        bash.runs(line)
        seen = watch.seen()
        for made in (bash.place / "secrets").iterdir():
            if made.is_dir() and not made.is_symlink():
                shutil.rmtree(made)
            elif made.name != "key":
                os.unlink(made)
        return line, happens in seen

    try:
        show(make, bash, lambda: rule, 0.6)
    finally:
        watch.close()


@given(st.integers(0, 2**32))
def test_no_text_that_runs_a_denied_program_is_allowed(seed: int) -> None:
    """Runs only what is allowed: most of these texts are no lines, and nearly all others are asked about."""
    random = Random(seed)
    rules = [parse_rule("*", "allow", "flag"), parse_rule(RM, "deny", "flag")]
    made = [texts.any_text(random) for _ in range(100)]
    requests = [Request("a", "execute", command=Command(line=text), root="/p", home="/home/u") for text in made]
    allowed = [text for text, request in zip(made, requests, strict=True) if judge(rules, request).action == "allow"]
    with TemporaryDirectory() as folder, RealBash(Path(folder), ["rm"]) as bash:
        assert [text for text in allowed if bash.runs(text)] == []


def test_everyday_lines_are_seldom_asked_about() -> None:
    random = Random(28)
    lines = [honest.everyday_line(random) for _ in range(400)]
    denies = ("execute:rm -rf *", "execute:git push *", "execute:npm publish *", "read:.env")
    rules = [parse_rule("*", "allow", "flag"), *(parse_rule(deny, "deny", "flag") for deny in denies)]
    asked = []
    for line in lines:
        verdict = judge(rules, Request("a", "execute", command=Command(line=line), root="/p", home="/home/u"))
        if verdict.action != "allow":
            asked.append(f"{line!r}: {verdict.why}")
    assert len(asked) <= len(lines) // 20, "\n".join((f"{len(asked)} of {len(lines)} lines", *asked))
