"""How long it takes to judge the worst command lines: ``python -m benchmarks.judging [ROUNDS]``.

Lines of 200 KB and lines at the limits of the reader, each made of one piece that is expensive somewhere, and globs of
rules that are expensive to match. CPU time, the best of several rounds. The goal is 50 ms for any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from time import process_time

from dragoman.policy import Command, Request, Rule, judge, parse_rule

ROUNDS = 3
GOAL_MS = 50.0
LETTERS = 200_000
PIECES = (
    *("a|", "a;", "a && ", "a ", "'a' ", '"a" ', "''", '"\\\\"', "\\a", "a\n", "$(", "../", "**/", "[a", "-", "~/a "),
    *(">a ", "<f ", "2>&1 ", "x=1 ", "--a=b ", ".a ", ".git ", "a/b.c ", "cd a; ", "xrm|", "git ", "sudo git "),
    *("sh -c 'a';", "xargs a|", "npx a;", "find . -name x;", "git -C . -c a=b push;", "env A=b a;", "echo a;"),
)
# Words that differ, so that nothing is remembered from the word before.
NUMBERED = (".a{} ", "a/b{}/c ", "~/a{} ", "x{}=.git ", "--o{}=../a ")
GLOBS = ("**/a*b*c/**", "*a*a*a*a*b/**", "**/**/**/x?y*", "a/**/b/**/c/**/d*", "?" * 50 + "*")


def main(rounds: int = ROUNDS) -> None:
    rules = [
        parse_rule("*", "allow", "flag", "--allow"),
        *(parse_rule(f"execute:{name} *", "deny", "flag", "--deny") for name in ("git push", "rm", "npm publish")),
        parse_rule("read:secret/**", "deny", "flag", "--deny"),
        parse_rule("edit:**/a*b*c/**", "ask", "flag", "--ask"),
    ]
    worst: dict[str, tuple[float, str]] = {}
    for kind, piece, requests in cases(rounds):
        globs = [parse_rule(f"edit:{piece}", "deny", "flag", "--deny")] if kind == "glob" else []
        taken = min(milliseconds(rules + globs, request) for request in requests)
        worst[kind] = max(worst.get(kind, (0.0, "")), (taken, piece))
    for kind, (taken, piece) in worst.items():
        print(f"judging, {kind:<14} {taken:6.1f} ms of CPU at most (goal {GOAL_MS:.0f}), for {piece!r}")


def cases(rounds: int) -> Iterator[tuple[str, str, list[Request]]]:
    for piece in PIECES:
        yield "200 KB", piece, [line(f"git {n} " + (piece * LETTERS)[:LETTERS]) for n in range(rounds)]
        count = 190 if set(piece) & set(";|&\n") else 1_900
        yield "at the limits", piece, [line(f"git {n} ; " + piece * count + "a") for n in range(rounds)]
    for piece in NUMBERED:
        texts = ("".join(piece.format(f"{n}-{word}") for word in range(1_900)) for n in range(rounds))
        yield "many names", piece, [line(f"git x ; {text}") for text in texts]
    for glob in GLOBS:
        path = "/p/" + "/".join(["a" * 200] * 20)
        yield "glob", glob, [Request("a", "edit", paths=(f"{path}/{n}",), root="/p", home="/h") for n in range(rounds)]


def line(text: str) -> Request:
    return Request("a", "execute", command=Command(line=text), root="/p", home="/home/u")


def milliseconds(rules: list[Rule], request: Request) -> float:
    start = process_time()
    judge(rules, request)
    return (process_time() - start) * 1000


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
