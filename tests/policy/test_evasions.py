"""A deny holds: every way around it that we know ends in a deny or a question, never in an allow."""

from __future__ import annotations

from time import process_time

import pytest

from dragoman.policy import Command, Request, judge, parse_rule

EVERYTHING = [parse_rule("*", "allow", "flag"), parse_rule("execute:*", "allow", "flag")]


def judged(rule: str, text: str) -> str:
    request = Request("a", "execute", text, command=Command(line=text), root="/p", home="/home/u")
    return judge([*EVERYTHING, parse_rule(rule, "deny", "pinned")], request).action


def argv(rule: str, *words: str) -> str:
    request = Request("a", "execute", "", command=Command(words), root="/p", home="/home/u")
    return judge([*EVERYTHING, parse_rule(rule, "deny", "pinned")], request).action


DENIED = [
    ("git push *", "git push"),
    ("git push *", "git -C . push"),
    ("git push *", "git --no-pager push origin main"),
    ("git push *", "git -c a=b push"),
    ("git push *", "git --git-dir=.git --work-tree . push"),
    ("git push *", "/usr/bin/git push"),
    ("git push *", "Git push"),
    ("git push *", "./git push"),
    ("git push *", "g'i't pu\"sh\""),
    ("git push *", "\\git push"),
    ("git push *", "cd sub && git push"),
    ("git push *", "git status | git push"),
    ("git push *", "git add . && git commit -m x && git push -f"),
    ("git push *", "bash -lc 'git push'"),
    ("git push *", "sh -c 'cd x && git -C . push'"),
    ("git push *", "timeout 5 git push"),
    ("git push *", "env A=b git push"),
    ("git push *", "sudo -n git -C . push"),
    ("npm publish *", "npm --silent publish"),
    ("npm publish *", "npm -w pkg publish"),
    ("kubectl delete *", "kubectl -n prod delete pod x"),
    ("docker rm *", "docker -H tcp://x rm y"),
    ("terraform destroy *", "terraform -chdir=infra destroy"),
    ("cargo publish *", "cargo +nightly publish"),
    ("uv publish *", "uv --directory x publish"),
    ("make deploy *", "make -C infra deploy"),
    ("gh pr *", "gh -R a/b pr merge"),
    ("rm *", "ls; rm -rf x"),
    ("rm *", "find . -name x -exec rm {} +"),
    ("rm *", "find . | xargs -0 rm -f"),
    ("rm *", "bash <<'E'\nrm -rf x\nE"),
    ("rm *", "echo $(rm -rf x)"),
    ("rm *", "ssh host 'rm -rf x'"),
    ("rm *", "npx rm -rf x"),
    ("rm *", "RM x"),
]

ASKED = [
    ("rm *", "rm${IFS}-rf x"),
    ("rm *", "$'rm' x"),
    ("rm *", "R=rm; $R x"),
    ("rm *", "/bin/r? x"),
    ("rm *", "/bin/r[m] x"),
    ("rm *", "echo 'rm -rf x' | sh"),
    ("rm *", "cat x | bash"),
    ("rm *", "bash -s < x"),
    ("rm *", 'eval "r"m x'),
    ("rm *", "{rm,-rf,x}"),
    ("rm *", "echo x | xargs -I{} sh"),
    ("rm *", "python -c 'import os; os.remove(1)'"),
    ("rm *", "python - <<'E'\nprint(1)\nE"),
    ("rm *", "perl -e 'unlink 1'"),
    ("rm *", 'awk \'BEGIN{system("r" "m x")}\''),
    ("rm *", "prlimit rm x"),
    ("rm *", "my-wrapper --go /bin/rm x"),
    ("rm *", "sed 's/x/r/e' f"),
    ("rm *", "sed -nf 5p x"),
    ("rm *", "sed --exp=e x"),
    ("rm *", "sed -i '' 's/a/b/e' x"),
    ("rm *", "git x"),
    ("rm *", "git -c alias.x='!rm y' x"),
    ("rm *", "git -c core.pager=r log"),
    ("rm *", "git rebase -x 'r''m y' main"),
    ("rm *", "tar -xf a --checkpoint-action=exec=x"),
    ("rm *", "GIT_SSH_COMMAND='./x y' git fetch"),
    ("rm *", "PATH=. ls"),
    ("rm *", "BASH_ENV=x bash -c ls"),
    ("rm *", "env PATH=. ls"),
    ("rm *", "pushd /tmp && ls"),
    ("rm *", "a && b &"),
    ("rm *", "for f in a; do $f; done"),
    ("git push *", "git --unknown-option x push"),
    ("git push *", "git pus[h]"),
    ("git push *", "git ${x} push"),
    ("git push *", "echo push | xargs git"),
    ("git push *", "git p"),
    ("aws s3 rm *", "aws --profile prod s3 rm x"),
    ("gh pr merge *", "gh pr -R a/b merge"),
]


def test_there_are_at_least_fifty_evasions() -> None:
    assert len(DENIED) + len(ASKED) >= 50


@pytest.mark.parametrize(("rule", "text"), DENIED)
def test_an_evasion_that_can_be_read_is_denied(rule: str, text: str) -> None:
    assert judged(f"execute:{rule}", text) == "deny"
    assert argv(f"execute:{rule}", "bash", "-lc", text) == "deny"


@pytest.mark.parametrize(("rule", "text"), ASKED)
def test_an_evasion_that_cannot_be_read_is_asked_about(rule: str, text: str) -> None:
    assert judged(f"execute:{rule}", text) in ("ask", "deny")
    assert argv(f"execute:{rule}", "bash", "-lc", text) in ("ask", "deny")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("git push *", "git status"),
        ("git push *", "git stash push"),
        ("git push *", "git log --grep push"),
        ("git push *", "git commit -m push"),
        ("git push *", "npm test 2>&1 | tail -20"),
        ("git push *", "grep -rn 'git push' ."),
        ("git push *", "cd web && timeout 60 npm run build > out.txt 2>&1"),
        ("rm *", "git rm x"),
        ("rm *", "sed -i 's/a/b/g' x"),
        ("rm *", "sed -n 1,5p x"),
        ("rm *", "sed -i '' '/a b/d' x"),
        ("rm *", "python manage.py migrate"),
        ("rm *", "echo rm"),
        ("rm *", "make clean"),
        ("npm publish *", "npm run build -- --publish"),
        ("kubectl delete *", "kubectl -n delete get pods"),
    ],
)
def test_a_deny_does_not_concern_what_is_plainly_something_else(rule: str, text: str) -> None:
    assert judged(f"execute:{rule}", text) == "allow"


@pytest.mark.parametrize(
    "text", ["echo x > src/a", "cat <<'E' >> ./src/../src/a\nx\nE", "cd src && echo x > a", "ls | tee src/a"]
)
def test_a_redirection_into_a_file_is_an_edit_of_it(text: str) -> None:
    assert judged("edit:src/**", text) == "deny"
    assert judged("edit:doc/**", text) == "allow"
    request = Request("a", "execute", text, command=Command(line=text), root="/p", home="/home/u")
    safe = parse_rule("execute", "allow", "flag")
    assert judge([safe], request).action == "ask"
    if "tee" not in text:
        assert judge([safe, parse_rule("edit:src/**", "allow", "flag")], request).action == "allow"


@pytest.mark.parametrize(
    "text",
    [
        "echo x > .git/hooks/pre-commit",
        "cd .git && echo x >hooks/a",
        "cp x .gi*/hooks/y",
        "cp x .g[i]t/hooks/y",
        "cd .git && cp a hooks/b",
        "cat <<'E' > AGENTS.md\nx\nE",
    ],
)
def test_a_protected_file_is_asked_about_however_it_is_written(text: str) -> None:
    request = Request("a", "execute", text, command=Command(line=text), root="/p", home="/home/u")
    assert judge(EVERYTHING, request).action == "ask"


@pytest.mark.parametrize(
    "text", ["cat secret.txt", "cp secret.txt x", "cd a && cat ../secret.txt", "grep -r x .", "cat secr*", "cat $X"]
)
def test_a_command_that_names_a_denied_file_is_asked_about(text: str) -> None:
    assert judged("read:secret.txt", text) == "ask"
    assert judged("read:other.txt", text.replace(" .", " a").replace("$X", "x")) == "allow"


def test_input_from_a_denied_file_is_denied() -> None:
    assert judged("read:secret.txt", "wc -l < ./secret.txt") == "deny"


def test_a_request_that_could_not_be_read_is_not_covered_while_a_rule_may_concern_it() -> None:
    unread = Request("a", "other", root="/p", unreadable="the agent sent no path")
    reading = Request("a", "read", root="/p", unreadable="the agent sent no path")
    assert judge(EVERYTHING, unread).action == "ask"
    assert judge(EVERYTHING, reading).action == "allow"
    assert judge([*EVERYTHING, parse_rule("read:x", "deny", "pinned")], reading).action == "ask"
    without_paths = Request("a", "edit", root="/p")
    assert judge([*EVERYTHING, parse_rule("edit:x", "deny", "pinned")], without_paths).action == "ask"


HOSTILE = [
    "ls && ",
    "a|",
    "a ",
    "''",
    '"\\\\"',
    "git ",
    "xrm|",
    "sudo git ",
    "A=b ",
    "$(",
    ">a ",
    "../",
    ".a ",
    "cd a; ",
    "-c a=b ",
]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("$(a; RM -rf /)", True),
        ("$(a\nrm x)", True),
        ("$x && 'r'm x", True),
        ("rm x;$(", True),
        ("$(ls arm;farm|charm)", False),
        ("$(echo) " + "arm;" * 1000 + "rm x", False),  # only the first pieces are searched; it is asked about anyway
        ("İ$(a;rm x)", True),
    ],
)
def test_a_denied_command_is_found_in_a_text_that_cannot_be_read(text: str, runs: bool) -> None:
    request = Request("a", "execute", command=Command(line=text), root="/p", home="/home/u")
    rules = [*EVERYTHING, parse_rule("execute:rm *", "deny", "flag")]
    assert judge(rules, request).action == ("deny" if runs else "ask")


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_to_judge_does_not_grow_faster_than_the_line(piece: str) -> None:
    rules = [
        *EVERYTHING,
        *(parse_rule(f"execute:{name} *", "deny", "flag") for name in ("git push", "rm", "npm publish")),
    ]
    rules += [parse_rule("read:secret/**", "deny", "flag"), parse_rule("edit:**/a*b*c/**", "ask", "flag")]

    def seconds(length: int) -> float:
        best = 9.0
        for number in range(3):
            text = f"git {number} " + (piece * length)[:length]
            request = Request("a", "execute", command=Command(line=text), root="/p", home="/home/u")
            start = process_time()
            judge(rules, request)
            best = min(best, process_time() - start)
        return best

    # Ten times the length: a hundred times the time would be quadratic. Small times are too coarse to compare.
    assert seconds(200_000) <= 30 * max(seconds(20_000), 0.005)


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ('find . -type f -not -path "./.git/*"', "allow"),
        ("sed -n 1,3p AGENTS.md", "allow"),
        ('find . -path "./.git/*" -delete', "ask"),
        ("sed -i s/a/b/ AGENTS.md", "ask"),
    ],
)
def test_a_command_that_only_reads_may_name_a_protected_file(line: str, action: str) -> None:
    request = Request("x", "execute", command=Command(line=line), root="/w", home="/h")
    assert judge([parse_rule("*", "allow", "flag")], request).action == action
