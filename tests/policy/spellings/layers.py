"""Ways to run a command through something else: wrappers, shells, interpreters, builtins, tools that run their words.

A way takes the words or the line of a command and returns a line that runs it. Some of them do not work with every
command, or not on every machine: bash shows which lines did.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

from tests.policy.spellings.quoting import forms, joined, put

AroundWords: TypeAlias = Callable[[list[str], Random], list[str]]
AroundLine: TypeAlias = Callable[[str, Random], str]


def _some(random: Random, *choices: str) -> list[str]:
    """Some of these options, in any order; an option with its value is one text."""
    count = random.randint(0, min(2, len(choices)))
    return [word for choice in random.sample(choices, count) for word in choice.split(" ")]


def _one(random: Random, *choices: str) -> list[str]:
    return random.choice(choices).split(" ")


# A wrapper, the options that may stand first, and what has to stand before the command.
_WRAPPERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "env",
        ("-i", "-u X", "-uX", "--unset=X", "-C .", "--chdir=.", "-v", "--ignore-signal=INT", "-"),
        ("", "A=b", "--"),
    ),
    (
        "timeout",
        ("-k 1", "-k1", "-s KILL", "-sKILL", "--signal=9", "--foreground", "--preserve-status", "-v", "--kill-after=2"),
        ("5", "5s", "0.1m", "-- 5"),
    ),
    ("nice", (), ("", "-n 3", "-n3", "-3", "--adjustment=3", "--adj 3", "--")),
    ("setsid", ("-w", "--wait"), ("-w", "--wait --")),
    ("prlimit", ("-n64:64", "--nofile=64", "--core=0", "-c0", "--verbose"), ("", "--")),
    ("stdbuf", ("-e0", "-i0"), ("-oL", "-o 0", "--output=L", "--out=0")),
    ("ionice", ("-t", "--ignore"), ("", "-c3", "-c 2 -n 0", "--class idle", "-c2 -n7")),
    ("taskset", (), ("1", "-c 0", "--cpu-list 0", "0x1")),
    ("chrt", (), ("-o 0", "--other 0", "-b 0", "--idle 0", "-i 0")),
    ("nohup", (), ("", "--")),
    ("setarch", (), ("-R", "x86_64", "x86_64 -R", "linux64 --3gb", "--addr-no-randomize", "-v -R")),
    ("linux64", ("-R", "-B"), ("", "--")),
    ("x86_64", ("-R", "-v"), ("",)),
    ("choom", (), ("-n 0 --", "-n 0", "--adjust 0 --")),
    ("flock", ("-n", "-w 1", "--verbose", "-o"), ("-s lock", "--shared .")),
    ("unshare", ("-r", "--user", "--fork"), ("", "--")),
    ("setpriv", ("--no-new-privs", "--nnp"), ("", "--")),
    ("capsh", ("--current",), ("-- -c 'exec \"$@\"' x",)),
    ("chroot", (), ("/", "--skip-chdir /")),
    ("strace", ("-f", "-q", "-qq", "-e trace=none"), ("-o /dev/null",)),
    ("busybox", (), ("env", "nice", "timeout 5", "")),
    ("cmake", (), ("-E env", "-E env A=b", "-E time", "-E chdir .")),
    ("find", (), (". -maxdepth 0 -exec", "words.txt -exec", ". -prune -execdir")),
    ("xargs", ("-r", "-t", "-n 5", "-P1", "-I%"), ("-a words.txt", "--arg-file=words.txt --")),
    ("ld.so", (), ("/usr/bin/env", "/usr/bin/nice")),
    ("/lib64/ld-linux-x86-64.so.2", (), ("/usr/bin/env", "/bin/nice")),
    ("perl", (), ("-e 'exec @ARGV'", "-we 'system @ARGV'", "-e 'exec(@ARGV)' --")),
    ("python3", ("-I", "-B", "-X dev"), ("-c 'import os,sys;os.execvp(sys.argv[1],sys.argv[1:])'",)),
    ("start-stop-daemon", (), ("-S -x /usr/bin/env --",)),
    ("doas", (), ("", "-u root")),
    ("faketime", (), ("yesterday", "-f +0")),
    ("rlwrap", (), ("",)),
    ("bwrap", (), ("--bind / /", "--dev-bind / / --")),
    ("fakeroot", (), ("", "--")),
    ("dbus-run-session", (), ("--", "")),
    ("ssh-agent", (), ("",)),
    ("valgrind", (), ("-q --tool=none",)),
    ("runuser", (), ("-u root --",)),
    ("nsenter", (), ("-t 1 --", "")),
    ("tini", (), ("--", "-g --")),
)
# They take much longer to start than others, or need what only some machines permit.
_SLOW = frozenset({"valgrind", "fakeroot", "dbus-run-session", "strace", "bwrap", "runuser"})


def _is_here(program: str) -> bool:
    return shutil.which(program) is not None


WRAPPERS = tuple(row for row in _WRAPPERS if _is_here(row[0]) and row[0] not in _SLOW)
SLOW_WRAPPERS = tuple(row for row in _WRAPPERS if _is_here(row[0]) and row[0] in _SLOW)
MISSING_WRAPPERS = tuple(row[0] for row in _WRAPPERS if not _is_here(row[0]))


def wrapper(words: list[str], random: Random) -> list[str]:
    """Return the words behind a wrapper with its options."""
    name, options, before = random.choice(WRAPPERS)
    return [*_named(name, random), *_some(random, *options), *shlex.split(random.choice(before)), *words, *_end(name)]


def slow_wrapper(words: list[str], random: Random) -> list[str]:
    """Return the words behind a wrapper that takes long to start."""
    name, options, before = random.choice(SLOW_WRAPPERS)
    return [name, *_some(random, *options), *shlex.split(random.choice(before)), *words]


def _named(name: str, random: Random) -> list[str]:
    found = shutil.which(name)
    return [found if found is not None and random.random() < 0.15 else name]


def _end(name: str) -> list[str]:
    return [";"] if name == "find" else []


def builtin_wrapper(words: list[str], random: Random) -> list[str]:
    """Return the words behind a word of the shell itself."""
    first = (
        "command",
        "command --",
        "command -p",
        "builtin command",
        "exec",
        "exec -a z",
        "exec -c",
        "exec -l",
        "jobs -x",
    )
    return [*_one(random, *first), *words]


SHELLS = tuple(
    name
    for name in (
        "sh",
        "bash",
        "dash",
        "rbash",
        "zsh",
        "ksh",
        "mksh",
        "yash",
        "posh",
        "/bin/sh",
        "/usr/bin/bash",
        "busybox sh",
    )
    if _is_here(name.split(" ")[0])
)


def shell(line: str, random: Random) -> list[str]:
    """Return words that run a line in a shell."""
    name = random.choice(SHELLS)
    flags = ["-c", "-ec", "-uc", "-xc", "-e -c", "-c --"]
    if "bash" in name:
        flags += [
            "-lc",
            "--norc -c",
            "-o pipefail -c",
            "--noprofile --norc -ec",
            "-O extglob -c",
            "--posix -c",
            "+B -c",
        ]
    end = random.choice(([], [], ["x"], ["x", "y"]))
    return [*name.split(" "), *_one(random, *flags), line, *end]


def _in_double_quotes(line: str) -> str:
    return line.replace("\\", "\\\\").replace('"', '\\"')


# Programs that run a line they are given. `%s` is the line as it is; the words are apart already.
_LINE_RUNNERS: tuple[tuple[str, ...], ...] = (
    ("flock", "lock", "-c", "%s"),
    ("flock", "-n", "lock", "--command", "%s"),
    ("capsh", "--", "-c", "%s"),
    ("script", "-qec", "%s", "/dev/null"),
    ("script", "--quiet", "--command", "%s", "/dev/null"),
    ("env", "-S", "sh -c '%s'"),
    ("env", "-iS", 'bash -c "%s"'),
    ("find", ".", "-maxdepth", "0", "-exec", "sh", "-c", "%s", ";"),
    ("xargs", "-a", "words.txt", "sh", "-c", "%s"),
    ("split", "-l1", "--filter=%s", "words.txt"),
    ("split", "--fil", "%s", "words.txt"),
    ("tar", "cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=%s", "words.txt"),
    ("tar", "-cf", "/dev/null", "--checkpoint=1", "--checkpoint-act", "exec=%s", "words.txt"),
    ("tar", "-cf", "/dev/null", "-I", "%s", "words.txt"),
    ("tar", "-cf", "/dev/null", "--use-comp=%s", "words.txt"),
    ("make", "--eval=a:;%s", "a"),
    ("make", "--ev", "$(shell %s)"),
    ("make", "-s", "--eval", "a:;@%s", "a"),
    ("sed", "1e %s", "words.txt"),
    ("sed", "-n", "-e", "1!d", "-e", "1e%s", "words.txt"),
    ("awk", 'BEGIN{system("%s")}'),
    ("awk", 'BEGIN{"%s"|getline}'),
    ("mawk", 'BEGIN { print 1 | "%s" }'),
    ("perl", "-e", "system(q{%s})"),
    ("perl", "-e", "`%s`"),
    ("perl", "-Mstrict", "-e", "exec qq(%s)"),
    ("python3", "-c", 'import os; os.system("""%s""")'),
    ("python3", "-Ic", 'import os; os.popen("""%s""").read()'),
    ("vim", "-es", "-u", "NONE", "-c", "!%s", "-c", "q"),
    ("ssh", "-o", "ProxyCommand=%s", "h"),
    ("ssh", "-oProxyCommand=%s", "-F", "none", "h"),
    ("git", "-c", "alias.z=!%s", "z"),
    ("git", "-c", "core.sshCommand=%s;:", "ls-remote", "ssh://x/y"),
    ("git", "-c", "protocol.ext.allow=always", "ls-remote", "ext::sh -c %s"),
    ("git", "ls-remote", "--upload-pack=%s;:", "file:///x"),
    ("busybox", "sh", "-c", "%s"),
)
LINE_RUNNERS = tuple(row for row in _LINE_RUNNERS if _is_here(row[0]) and len(row) > 2)


def line_runner(line: str, random: Random) -> list[str]:
    """Return words of a program that runs the line, though it is no shell."""
    row = random.choice(LINE_RUNNERS)
    escaped = _in_double_quotes(line) if row[0] in ("awk", "mawk", "python3") else line
    return [word.replace("%s", escaped) for word in row]


# How a shell runs a line as a part of another.
_GROUPS = forms(r"""
    ( %s )
    { %s; }
    %s &
    ! %s
    time %s
    time -p %s
    true && %s
    false || %s
    true; %s
    echo x | %s
    %s | cat
    %s |& cat
    if true; then %s; fi
    if %s; then :; fi
    while %s; do break; done
    for f in a; do %s; done
    case x in x) %s;; esac
    f() { %s; }; f
    function g { %s; }; g
    coproc { %s; }
    echo $(%s)
    echo "$(%s)"
    x=$(%s)
    cat <(%s)
    echo x > >(%s)
    : ${x:-$(%s)}
    echo $(( $(%s)0 ))
    cat <<E$N$(%s)$NE
    cat <<< $(%s)
    for f in $(%s); do :; done
    cd . && %s
    %s > out 2>&1
    2>/dev/null %s
    A=b; %s
    # x$N%s
    set -e; %s
    exec 3>&1; %s
    (( $(%s)1 ))
    [[ $(%s) ]]
    case $(%s) in *) ;; esac
    x=y true; %s
    :; { :; %s; }
    export A=$(%s)
    local_x=1 && %s
    %s; exit
    echo {1,2} && %s
    until %s; do break; done
""")
_EVALUATIONS = forms(r"""
    eval %q
    a['$(%a)']=1
    a["\$(%s)"]=1 true
    eval -- %q
    builtin eval %q
    command eval %q
    trap %q EXIT
    trap %q 0
    trap -- %q DEBUG; true
    . /dev/stdin <<< %q
    source /dev/stdin <<< %q
    . <(echo %q)
    source <(printf %%s %q)
    sh <<< %q
    bash -s <<< %q
    echo %q | sh
    printf '%%s\n' %q | bash
    cat <<'E' | sh$N%s$NE
    bash <<'E'$N%s$NE
    sh /dev/stdin <<< %q
    echo %q > run; BASH_ENV=run bash -c :
    bash <(echo %q)
    sh < <(echo %q)
    compgen -C %q x
    mapfile -C %q -c 1 <<< x
    readarray -c1 -C %q a < words.txt
    x=%q; eval "$x"
    x=%q; ${x@P}
    f() { eval "$1"; }; f %q
    read -r x <<< %q; eval "$x"
    shopt -s expand_aliases; alias z=%q$Nz
    PS4='$(%s)'; set -x; :
    [ -v 'a[$(%a)]' ]
    test -v 'a[$(%a)]'
    [[ -v 'a[$(%a)]' ]]
    [[ 'a[$(%a)]' -eq 0 ]]
    printf -v 'a[$(%a)]' x
    read 'a[$(%a)]' <<< x
    let 'a[$(%a)]=1'
    declare 'a[$(%a)]=1'
    typeset -i 'x=a[$(%a)]'
    (( a[$(%s)0] ))
    x='a[$(%a)]'; (( x ))
    x='a[$(%a)]'; echo $(( x ))
    echo ${a[$(%s)0]}
    a[$(%s)0]=1
    x='$(%a)'; echo "${x@P}"
    declare -n r='a[$(%a)]'; echo $r
    exec {x}> >(%s)
    ulimit -c $(%s)0
""")


def group(line: str, random: Random) -> str:
    """Return a line in which the given one is a part of the grammar."""
    return put(random.choice(_GROUPS), line)


def evaluation(line: str, random: Random) -> str:
    """Return a line that evaluates the given one: builtins, input of shells, arithmetic."""
    return put(random.choice(_EVALUATIONS), line)


# The program, or all of its words, come from data: `%p` the program, `%r` its other words.
_FROM_DATA = forms(r"""
    $(echo %p) %r
    `echo %p` %r
    $(which %p) %r
    $(command -v %p) %r
    R=%p; $R %r
    R=%p; "$R" %r
    R=%p; ${R} %r
    set -- %p %r; "$@"
    a=(%p %r); "${a[@]}"
    read -r c <<< '%p %r'; $c
    ${x:-%p} %r
    ${x:=%p} %r
    {%p,%r}
    echo %p %r | xargs env
    echo 5 %p %r | xargs timeout
    echo 3 %p %r | xargs nice -n
    printf '0 %p %r' | xargs chrt -o
    echo 1 %p %r | xargs taskset
    echo / %p %r | xargs chroot
    echo lock %p %r | xargs flock
    echo '-exec %p %r ;' | xargs find . -maxdepth 0
    echo '%p %r' | xargs -I{} find . -maxdepth 0 -exec sh -c {} \;
    echo %p %r | xargs nice -n 1
    printf '%p %r' | xargs timeout 5
    echo %r | xargs %p
    echo %p %r | xargs -n 9 setsid -w
    printf '%p\0%r\0' | xargs -0 env
    echo %r | xargs -I{} %p {}
    echo %p | xargs -I% sh -c '% %r'
    find BIN -name %p -exec {} %r \;
    find BIN/%p -execdir {} %r \;
    ls BIN/%p | xargs -I% env % %r
    BIN/%p %r
    BIN/%g %r
    for c in %p; do $c %r; done
    x=%h y=%t; $x$y %r
    %h${z}%t %r
    %h$@%t %r
    %h$(echo %t) %r
    %h{%t,} %r
    hash -p BIN/%p z; z %r
    sh BIN/%p %r
    while read -r l; do $l; done <<< '%p %r'
    mapfile -t a <<< %p; ${a[0]} %r
    printf -v c %p; $c %r
    IFS=,; c=%p,%r; $c
    PATH=BIN %p %r
    cd BIN && ./%p %r
    exec BIN/%p %r
    command BIN/./%p %r
    ~+/../bin/%p %r
    declare c=%p; $c %r
    c=${c:-%p}; $c %r
    f() { "$@"; }; f %p %r
    awk '{system($0)}' <<< '%p %r'
    echo '%p %r' | sh -s
    sed -n '1s/.*/%p %r/ep' words.txt
    xargs -a <(echo %r) %p
    xargs %p <<< %r
    parallel %p ::: %r
    type -P %p | xargs -I@ sh -c '@ %r'
    alias q=%p; shopt -s expand_aliases; eval 'q %r'
""")


def from_data(words: Sequence[str], stubs: str, random: Random) -> str:
    """Return a line in which the program is not a word, but comes from data. `words` are plain."""
    program, rest = words[0], " ".join(words[1:])
    cut = random.randrange(1, len(program))
    form = random.choice(_FROM_DATA).replace("%p", program).replace("%r", rest).replace("BIN", stubs)
    form = form.replace("%h", program[:cut]).replace("%t", program[cut:])
    return form.replace("%g", f"{program[:cut]}[{program[cut]}]{program[cut + 1 :]}")


def elsewhere(place: str, random: Random) -> str:
    """Return a line that runs a program which only has the name of a known one; `place` is its folder."""
    program = random.choice(("ls", "cat", "git", "echo"))
    folder = random.choice(
        (
            place,
            f"/usr/bin/../..{place}",
            f"//{place}/.",
            "../elsewhere",
            "./../elsewhere",
            "~/../elsewhere",
            f"/bin/..{place}",
        )
    )
    return random.choice(("", "", "nice ", "env ", "command ", "ls; ")) + f"{folder}/{program} victim"


def layered(words: list[str], random: Random, most: int = 3) -> str:
    """Return a line that runs the words behind several layers of any kind."""
    line = joined(words, random)
    current: list[str] | None = words
    for _ in range(random.randint(1, most)):
        kind = random.randrange(7)
        if kind <= 1 and current is not None:
            current = wrapper(current, random)
        elif kind == 2 and current is not None:
            # Of a word of the shell nothing but a shell can run the rest.
            line, current = joined(builtin_wrapper(current, random), random), None
            continue
        elif kind == 3:
            current = shell(line, random)
        elif kind == 4:
            current = line_runner(line, random)
        else:
            line, current = (group if kind == 5 else evaluation)(line, random), None
            continue
        line = joined(current, random)
    return line
