"""Random texts from pieces of the shell's grammar, of sed and of awk, with a denied command somewhere in them.

Most of them are no lines at all. They show that what the judge takes for plain is plain to the programs too.
"""

from __future__ import annotations

import shlex
from random import Random

_SHELL = (
    *("rm victim", "rm victim", "rm victim", "rm", "victim", "ls", "echo x", "cat", "true", "false", "eval ", "exec "),
    *(
        ";",
        "&&",
        "||",
        "|",
        "&",
        "|&",
        ";;",
        "'",
        '"',
        "\\",
        "\n",
        " ",
        "\t",
        "#",
        "# x\n",
        "$(",
        ")",
        "`",
        "{ ",
        "; }",
    ),
    *("(", "!", "<", ">", ">>", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "<<<", "2>&1", ">&2", "x=", "A=b ", "A='", "-"),
    *("=", "[", "]", "*", "~", "$'", '$"', "$x", "${", "}", "\\\n", "\r", "$((", "))", "case x in x)", "esac", "if "),
    *("then ", "fi", "\\'", "'\\''", '"\'"', "{a,b}", "a\\ b", "\x0b", "\u00a0", "\u200b", "'#'", "\\#", "x#", "&>"),
    *("<(", ">(", "2<", "<&0", ">|", "^", "%", "@", "time ", "command ", "builtin ", "do\n", "done"),
)
_SED = (
    *(
        "s",
        "/",
        "/",
        "/",
        "|",
        ",",
        "a",
        "b",
        "e rm victim",
        "e",
        "1",
        "2",
        "$",
        "0~2",
        "1,2",
        ";",
        "{",
        "}",
        "\n",
        "[",
    ),
    *(
        "]",
        "[/]",
        "\\",
        "\\n",
        "\\/",
        "w",
        "r",
        "p",
        "d",
        "y",
        "!",
        "&",
        "#",
        "t",
        ":a",
        "x",
        "g",
        "I",
        "q",
        "N",
        "a\\\n",
    ),
    *("i\\", "c x", "^", "*", ".", "one", " ", "z", "F", "=", "D", "G", "h", "l", "n"),
)
_AWK = (
    *("{", "}", "BEGIN", "END", "print", "printf", "x", "1", '"a"', '"rm victim"', "system(", "(", ")", "[", "]", "/"),
    *("/", "/a/", "|", "||", "|&", "getline", ">", ">>", ";", "\n", "#", "++", "--", "=", "==", "~", "!", "$", "$1"),
    *("if(", "if(1)", "while(", "else", "for(", "do", "in", "\\", '"', "'", "?", ":", ",", "+", "-", "*", "%", "f()"),
)
_OPTIONS = ("", "-n", "-E", "-e", "-e p -e", "-z", "--posix", "-s")


def any_text(random: Random) -> str:
    """Return a text."""
    kind = random.randrange(4)
    if kind < 2:
        return random.choice(("", " ")).join(_pieces(_SHELL, ("rm victim",), random))
    if kind == 2:
        script = "".join(_pieces(_SED, ("e rm victim", "s/one/rm victim/e", "1e rm victim"), random))
        return f"sed {random.choice(_OPTIONS)} {shlex.quote(script)} words.txt"
    program = random.choice(("", " ")).join(_pieces(_AWK, ('system("rm victim")',), random))
    return f"awk {random.choice(('', '-F:'))} {shlex.quote(program)} words.txt"


def _pieces(pieces: tuple[str, ...], denied: tuple[str, ...], random: Random) -> list[str]:
    found = [random.choice(pieces) for _ in range(random.randint(0, 8))]
    found.insert(random.randint(0, len(found)), random.choice(denied))
    return found
