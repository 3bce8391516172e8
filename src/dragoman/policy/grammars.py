"""Programs whose words have a grammar of their own: how each is read for `identify.py`.

`SPECIAL` has those that are known by the table, under their one name; `BUILTINS` those of the shell that set variables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.policy.known import is_harmless_value, more_of
from dragoman.policy.options import Parsed, parse_options
from dragoman.policy.scripts import is_plain_awk, is_plain_sed, is_plain_sql
from dragoman.policy.shell import Word

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.policy.identify import Identification, KnownCommand


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHOWN: Final = 60  # letters of a word in a sentence
# In words for a tool of the project these letters may be code for a shell.
CODE: Final = re.compile(r"[\s;|&$`<>\\'\"]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
INPUT_OF_XARGS: Final = "the input of xargs"
_INPUT: Final = re.compile(r"-|/dev/.*|/proc/.*")
_MAKE_VARIABLES: Final = re.compile(r"(?:V|VERBOSE|DEBUG|Q|NDEBUG|BUILD_TYPE|PREFIX|DESTDIR|TEST|TESTS)=[\w./:@%+-]*")
_SHELL_FLAGS: Final = re.compile(r"[-+][eufx]+|[-+]o|errexit|nounset|pipefail|xtrace|noglob|posix")
_DECLARING: Final = frozenset({"export", "readonly", "local", "declare"})
_FIND_ALONE: Final = _words(
    """! ( ) , -a -and -o -or -not -daystart -depth -d -follow -mount -xdev -noleaf -warn -nowarn -ignore_readdir_race
    -empty -executable -false -nogroup -nouser -readable -true -writable -delete -ls -print -print0 -prune -quit -H -L
    -P -E -X -s -x -noignore_readdir_race"""
)
_FIND_VALUED: Final = _words(
    """-maxdepth -mindepth -regextype -amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname
    -iname -inum -ipath -iregex -iwholename -links -lname -mmin -mtime -name -newer -path -perm -regex -samefile -size
    -type -uid -used -user -wholename -xtype -fls -fprint -fprint0 -printf -files0-from -D -f"""
)
_FIND_CHANGES: Final = frozenset({"-delete", "-fls", "-fprint", "-fprint0", "-fprintf"})
_FIND_EXEC: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_RESOURCES: Final = dict(
    pair.split("=")
    for pair in _words(
        """po=pod pods=pod deploy=deployment deployments=deployment svc=service services=service ns=namespace
        namespaces=namespace cm=configmap configmaps=configmap ds=daemonset daemonsets=daemonset sts=statefulset
        statefulsets=statefulset rs=replicaset replicasets=replicaset ing=ingress ingresses=ingress pv=persistentvolume
        pvc=persistentvolumeclaim sa=serviceaccount no=node nodes=node jobs=job cj=cronjob cronjobs=cronjob
        secrets=secret"""
    )
)


def read_xargs(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts, stops_early=True)
    command.whole.check_options(command.name, command.entry, parsed)
    command.add(parsed, ())
    if parsed.unlisted or not parsed.operands:
        return
    options = dict(parsed.options)
    inner = command.rest[parsed.operands[0] :]
    is_named = command.whole.is_fed_names and not {"-a", "-d"} & set(options)
    data = "./" if is_named else ""
    replaced = options.get("-I") or ("{}" if {"-i", "-I"} & set(options) else options.get("-J"))
    if replaced:
        # The program itself is never replaced.
        words = [
            word if replaced not in word.text else Word(word.text, word.text.partition(replaced)[0] or data)
            for word in inner[1:]
        ]
        command.whole.read((inner[0], *words), command.depth + 1)
    else:
        command.whole.read((*inner, Word(INPUT_OF_XARGS, data)), command.depth + 1)


def read_tar(command: KnownCommand) -> None:
    """Read tar: in a first word without a dash each letter with a value takes the next word."""
    first = command.texts[0] if command.texts else "-"
    if first[:1] != "-" and command.rest[0].fixed is None:
        following = list(command.rest[1:])
        words: list[Word] = []
        for letter in first:
            words.append(Word(f"-{letter}"))
            if f"-{letter}" in command.table.valued and following:
                words.append(following.pop(0))
        command.rest = (*words, *following)
        command.texts = [word.text for word in command.rest]
    command.read_plain()


def read_find(command: KnownCommand) -> None:
    index = 0
    options: list[tuple[str, str | None]] = []
    operands: list[str] = []
    inner: list[tuple[Word, ...]] = []
    while index < len(command.texts):
        text = command.texts[index]
        if text in _FIND_EXEC:
            end = next(
                (
                    place
                    for place in range(index + 1, len(command.texts))
                    if command.texts[place] == ";" or (command.texts[place] == "+" and command.texts[place - 1] == "{}")
                ),
                len(command.texts),
            )
            words = command.rest[index + 1 : end]
            inner.append(tuple(Word(w.text, w.text.partition("{}")[0] or "./") if "{}" in w.text else w for w in words))
            index = end + 1
        elif text in _FIND_VALUED or re.fullmatch("-newer[aBcm][aBcmt]", text):
            value = command.texts[index + 1] if index + 1 < len(command.texts) else None
            options.append((text, value))
            index += 2
        elif text == "-fprintf":
            options.append((text, None))
            index += 3
        elif text in _FIND_ALONE or re.fullmatch(r"-O[0-9]", text):
            options.append((text, None))
            index += 1
        elif text[:1] == "-":
            command.whole.doubt(f"`find` with `{short(text)}` is not known", has_code=True)
            return
        else:
            operands.append(text)
            index += 1
    if any(map(_may_be_expression, command.rest)):
        command.whole.doubt("some words of `find` are taken from data", has_code=True)
    command.given += options
    changing = any(name in _FIND_CHANGES for name, _ in options)
    command.add(Parsed((), ()), operands, kind="changes" if changing else "reads")
    for words in inner:
        if words:
            command.whole.read(words, command.depth + 1)
        else:
            command.whole.doubt("find runs what its words name", has_code=True)


def _may_be_expression(word: Word) -> bool:
    """Whether a word of find stands for words that are not known; `*.py` never stands for an expression."""
    if word.fixed is None or word.fixed[:1] not in ("", "-"):
        return False
    return word.text[-1:] in "*?]" or not set("*?[") & set(word.text)


def read_sed(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts)
    command.whole.check_options(command.name, command.entry, parsed)
    command.add(parsed)
    given = [value or "" for name, value in parsed.options if name == "-e"]
    # The empty word after `-i` is the suffix of BSD's sed, and a script that does nothing to GNU's.
    operands = [command.rest[index] for index in parsed.operands if command.texts[index]]
    scripts = given or [word.text for word in operands[:1]]
    is_data = any(word.fixed == "" for word in operands[: 0 if given else 1])
    is_data = is_data or any(word.text == INPUT_OF_XARGS and not word.fixed for word in operands)
    if is_data or not all(map(is_plain_sed, scripts)):
        command.whole.doubt("a script of sed can run programs", has_code=True)


def read_awk(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts, stops_early=True)
    command.whole.check_options(command.name, command.entry, parsed)
    command.add(parsed)
    program = command.rest[parsed.operands[0]] if parsed.operands else None
    if program is not None and (program.fixed is not None or not is_plain_awk(program.text)):
        command.whole.doubt("a program of awk can run others", has_code=True)


def read_sqlite(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts)
    command.check(parsed)
    command.add(parsed)
    texts = [command.texts[index] for index in parsed.operands[1:]]
    if not texts or not all(map(is_plain_sql, texts)):
        command.whole.doubt("the words or the input of sqlite3 can run programs", has_code=True)


def read_test(command: KnownCommand) -> None:
    command.add(parse_options(command.table, command.texts))
    # `-v` evaluates what stands in a subscript.
    is_variable = any(text == "-v" for text in command.texts)
    if is_variable or any("$(" in text or "`" in text for text in command.texts):
        command.whole.doubt(f"`{command.name}` can run what stands in its words", has_code=True)


def read_unset(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts)
    command.check(parsed)
    command.add(parsed)
    if not all(_NAME.fullmatch(command.texts[index]) for index in parsed.operands):
        command.whole.doubt("`unset` can run what stands in its words", has_code=True)


def read_less(command: KnownCommand) -> None:
    command.read_plain()
    # `+!CMD` runs it.
    if any(text.startswith("+") for text in command.texts):
        command.whole.doubt(f"`{command.name}` with `+` runs what its words name", has_code=True)


def read_make(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts)
    command.check(parsed)
    operands = [command.texts[index] for index in parsed.operands]
    command.add(parsed, operands)
    targets = [text for text in operands if "=" not in text]
    assigned = next((text for text in operands if "=" in text and not _MAKE_VARIABLES.fullmatch(text)), None)
    if assigned is not None:
        command.whole.doubt(f"`make` with `{short(assigned)}` may run what it names", has_code=True)
    if any(name == "-f" and is_input(value or "") for name, value in parsed.options):
        command.whole.doubt("`make` runs what its input names", has_code=True)
    command.note_project(" ".join([command.name, *targets]))


def read_chmod(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts)
    operands = [command.texts[index] for index in parsed.operands]
    # `-x` takes a permission away: it is a mode, and no option.
    mode = next((text for text in command.texts if re.fullmatch(r"-[rwxXst]+", text)), None)
    vague = mode or ("--reference" if any(name == "--reference" for name, _ in parsed.options) else "")
    if operands and mode is None:
        if operands[0].isdigit():
            operands[0] = operands[0].lstrip("0").rjust(3, "0")
        elif operands[0] in ("a=rwx", "ugo=rwx", "=rwx"):
            operands[0] = "777"
        else:
            vague = vague or operands[0]
    command.check(parsed)
    command.add(parsed, operands, vague=vague)


def read_push(command: KnownCommand) -> None:
    """Read `git push`: `+ref` is `--force`, `:ref` is `--delete`."""
    parsed = parse_options(command.table, command.texts)
    command.check_plain(parsed)
    operands = [command.texts[index] for index in parsed.operands]
    for text in operands:
        force, delete = text.startswith("+"), text.removeprefix("+").startswith(":") and len(text) > 1
        command.given += [(name, None) for name, is_given in (("-f", force), ("-d", delete)) if is_given]
    command.add(parsed, operands)


def read_config(command: KnownCommand) -> None:
    """Read `git config`: many of its keys name programs."""
    command.read_plain()
    parsed = parse_options(command.table, command.texts)
    names = {name for name, _ in parsed.options}
    operands = [command.texts[index] for index in parsed.operands]
    if operands[:1] in (["get"], ["list"], ["unset"]) or names & {
        "--get",
        "--get-all",
        "--get-regexp",
        "-l",
        "--unset",
    }:
        return
    operands = operands[1:] if operands[:1] == ["set"] else operands
    if len(operands) > 1 and not is_harmless_value("git", operands[0]):
        command.whole.doubt(f"git runs what the setting `{short(operands[0])}` may name", has_code=True)


def read_kubectl(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts)
    command.check(parsed)
    operands: list[str] = []
    for index in parsed.operands:
        kinds, slash, name = command.texts[index].partition("/")
        operands += [_RESOURCES.get(kind, kind) for kind in kinds.split(",")]
        operands += [name] if slash else []
    # What a file names is not in the words.
    named = next((option for option, _ in parsed.options if option in ("-f", "-k")), "")
    command.add(parsed, operands, vague=named)


def read_curl(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts)
    command.check(parsed)
    # More options can stand in a file.
    command.add(parsed, vague=next((option for option, _ in parsed.options if option == "-K"), ""))


def read_kubectl_exec(command: KnownCommand) -> None:
    parsed = parse_options(command.table, command.texts, stops_early=True)
    command.whole.check_options(command.name, command.entry, parsed)
    places = parsed.operands
    command.add(parsed, [command.texts[index] for index in places[:1]])
    end = next((index for index, text in enumerate(command.texts) if text == "--"), places[0] if places else -1)
    if places and end + 1 < len(command.rest):
        command.run_inner(end + 1)


def read_shell_line(command: KnownCommand) -> None:
    """Read a wrapper that passes its words to a shell as one line: `ssh HOST`, `watch`, `hyperfine`."""
    parsed = parse_options(command.table, command.texts, stops_early=True)
    command.whole.check_options(command.name, command.entry, parsed)
    count = more_of(command.entry).operands
    # The user's name at a host does not make it another one.
    command.add(parsed, [command.texts[index].rpartition("@")[2] for index in parsed.operands[:count]])
    inner = parsed.operands[count:]
    if not inner or any(CODE.search(command.texts[index]) or command.rest[index].fixed is not None for index in inner):
        command.whole.doubt(f"`{command.name}` passes its words to a shell", has_code=True)
    else:
        command.run_inner(inner[0])


def read_api(command: KnownCommand) -> None:
    """Read `gh api`, which can send what any other subcommand sends."""
    parsed = parse_options(command.table, command.texts)
    command.check(parsed)
    if {name for name, _ in parsed.options} & {"-X", "-f", "-F", "--input"} or parsed.unlisted:
        command.path = command.path[:1]
        command.add(parsed, vague="api", is_vague=True)
    else:
        command.add(parsed)


def _read_declaring(whole: Identification, words: tuple[Word, ...]) -> None:
    """Read `export` and its kind: a variable that is set here changes what runs later."""
    for word in words[1:]:
        assigned = ASSIGNMENT.match(word.text)
        is_option = re.fullmatch(r"[-+][prxgluaAfF]+", word.text) or (words[0].text == "export" and word.text == "-n")
        if assigned is not None:
            whole.check_variable(assigned[1])
        elif not is_option and not _NAME.fullmatch(word.text):
            whole.doubt(f"`{words[0].text}` can run what stands in its words", has_code=True)


def _read_read(whole: Identification, words: tuple[Word, ...]) -> None:
    for word in words[1:]:
        if not (_NAME.fullmatch(word.text) or re.fullmatch("-[rs]+", word.text)):
            whole.doubt("`read` can run what stands in its words", has_code=True)
        elif word.text[:1] != "-":
            whole.check_variable(word.text)


def _read_set(whole: Identification, words: tuple[Word, ...]) -> None:
    if not all(_SHELL_FLAGS.fullmatch(word.text) or re.fullmatch("-[euxo]+", word.text) for word in words[1:]):
        whole.doubt("`set` changes how the shell reads what follows")


BUILTINS: Final[dict[str, Callable[[Identification, tuple[Word, ...]], None]]] = {
    **dict.fromkeys(_DECLARING, _read_declaring),
    "read": _read_read,
    "set": _read_set,
}
SPECIAL: Final[dict[str, Callable[[KnownCommand], None]]] = {
    "xargs": read_xargs,
    "find": read_find,
    "tar": read_tar,
    "sed": read_sed,
    "awk": read_awk,
    "sqlite3": read_sqlite,
    "test": read_test,
    "[": read_test,
    "unset": read_unset,
    "less": read_less,
    "more": read_less,
    "make": read_make,
    "chmod": read_chmod,
    "git push": read_push,
    "git config": read_config,
    "kubectl delete": read_kubectl,
    "kubectl get": read_kubectl,
    "kubectl scale": read_kubectl,
    "kubectl exec": read_kubectl_exec,
    "ssh": read_shell_line,
    "watch": read_shell_line,
    "hyperfine": read_shell_line,
    "gh api": read_api,
    "curl": read_curl,
}


def is_input(text: str) -> bool:
    """Whether a file of this name is the input of a program, or anything that is open."""
    return _INPUT.fullmatch(text) is not None


def short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
