"""What a part of a line runs, as far as the table of known programs tells."""

from __future__ import annotations

import pytest

from dragoman.policy import known
from dragoman.policy.concern import identify_parts
from dragoman.policy.identify import Identified, identify_rule
from dragoman.policy.options import parse_options, read_options
from dragoman.policy.parts import read_parts
from dragoman.policy.scripts import is_plain_awk, is_plain_sed, is_plain_sql


def identified(line: str, **mine: str) -> Identified:
    """What the last part of a line runs."""
    reading = read_parts(None, line, "/p", "/home/u")
    assert not reading.unreadable, reading.unreadable
    return identify_parts(reading, "/p", "/home/u", mine)[-1]


@pytest.mark.parametrize(
    ("program", "path"),
    [
        ("git", "git"),
        ("/usr/bin/git", "git"),
        ("GIT.exe", "git"),
        ("/usr/lib/git-core/git-push", "git push"),
        ("git-send-pack", "git push"),
        ("python3.12", "python"),
        ("perl5.36-x86_64-linux-gnu", "perl"),
        ("gcc-12", "gcc"),
        ("pip3", "pip"),
        ("npx", "npm exec"),
        ("uvx", "uv tool run"),
        ("docker-compose", "docker compose"),
        ("sha256sum", "sha256sum"),
        ("b2sum", "b2sum"),
    ],
)
def test_a_program_has_one_name(program: str, path: str) -> None:
    assert known.program_path(program) == tuple(path.split())


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("npm i x", "npm install"),
        ("npm isntal x", "npm install"),
        ("npm installTest x", "npm install"),
        ("npm publis", "npm publish"),
        ("npm --silent urn x", "npm run"),
        ("docker container run x", "docker run"),
        ("docker image rm x", "docker rmi"),
        ("cargo +nightly b", "cargo build"),
        ("uv -q pip --quiet install x", "pip install"),
        ("python3 -Im pip install x", "pip install"),
        ("git --no-pager -C . init-db x", "git init"),
        ("gh pr new", "gh pr create"),
        ("terraform -chdir=. destroy", "terraform apply"),
        ("yarn", "yarn install"),
        ("pnpm deploy-it", "pnpm run"),
        ("timeout -k1 5 env -u X A=b nice -5 rm x", "rm"),
        ("yarn workspaces foreach -A run x", "yarn run"),
    ],
)
def test_a_subcommand_has_one_name(line: str, path: str) -> None:
    assert identified(line).runs[-1].path == tuple(path.split())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rm -rf d", "rm --recu -f d"),
        ("rm -rf d", "rm d -R --force"),
        ("git branch -D x", "git branch -d -f x"),
        ("git push -d o main", "git push --delet o main"),
        ("terraform destroy", "terraform apply --destroy"),
        ("chmod 777 x", "chmod 00777 x"),
        ("chmod 777 x", "chmod a=rwx x"),
        ("kubectl delete deployment x", "kubectl delete deploy/x"),
        ("git switch -C x", "git switch --force-create x"),
        ("head -n 5 x", "head --lines=5 x"),
        ("apt-get purge x", "apt-get remove --purge x"),
    ],
)
def test_equal_options_have_one_name(one: str, other: str) -> None:
    assert identified(one).runs[-1] == identified(other).runs[-1]


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("git push o +main", "-f"),
        ("git push o :old", "-d"),
        ("git push --mirror o", "-f"),
        ("git push --force-with-lease o", "-f"),
        ("cp -a x y", "-R"),
        ("rsync --delete-after x y", "--delete"),
    ],
)
def test_a_word_that_implies_an_option_counts_as_it(line: str, option: str) -> None:
    assert option in {name for name, _ in identified(line).runs[-1].options}


@pytest.mark.parametrize(
    "line",
    [
        "ls -la src | head -3",
        "cd src",
        "cp -r a b",
        "sed -i -e 's/a/b/g' -e '/x/d' f",
        "awk -F, '$3 > 5 {print $1}' f",
        "find . -name '*.py' -exec grep -l x {} +",
        "find . -name x | xargs sed -n 5p",
        "tar xzf a.tgz -C /tmp",
        "git log --oneline -5",
        "git -c color.ui=never diff",
        "git config user.name x",
        "git push origin main",
        "curl -s http://localhost/",
        "export NODE_ENV=test",
        "set -euo pipefail",
        "env",
        "sqlite3 a.db 'select 1'",
        "docker ps --format '{{.Names}}'",
        "test -f x",
    ],
)
def test_everything_is_known_of_ordinary_commands(line: str) -> None:
    found = identified(line)
    assert (found.unknown, found.project) == ("", ())


@pytest.mark.parametrize(
    ("line", "project"),
    [
        ("npx -y vitest run", "npx vitest"),
        ("python3 -m pytest -k 'a and b'", "python3 -m pytest"),
        ("./gradlew test", "./gradlew"),
        ("make -j4 test", "make test"),
        ("npm run build -- --x 'a b'", "npm run build"),
        ("uv run --with x pytest -q", "uv run pytest"),
        ("uv run x.py", "uv run x.py"),
        ("bash scripts/x.sh 'a b'", "bash scripts/x.sh"),
        (". .venv/bin/activate", ". .venv/bin/activate"),
        ("node --test", "node --test"),
        ("cargo test -p x", "cargo test"),
        (".venv/bin/ruff check", ".venv/bin/ruff"),
    ],
)
def test_code_of_the_project_is_named(line: str, project: str) -> None:
    found = identified(line)
    assert found.unknown == ""
    assert found.project[0] == project


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("capsh -- -c x", "capsh"),
        ("git frobnicate", "git frobnicate"),
        ("git -c core.pager=x log", "core.pager=x"),
        ("git clone -u x y", "-u"),
        ("git clone --conf core.sshCommand=x y", "core.sshCommand=x"),
        ("git ls-remote ext::x", "address"),
        ("git bisect run sh -c x", "-c"),
        ("git submodule foreach x", "foreach"),
        ("tar c --to-comm=x .", "--to-comm=x"),
        ("tar cIf x y.tar .", "-I"),
        ("tar cf x.tar *", "*"),
        ("timeout --frob 5 ls", "--frob"),
        ("env -S 'x y'", "-S"),
        ("env LD_PRELOAD=x ls", "LD_PRELOAD"),
        ("GIT_SSH=x git fetch", "GIT_SSH"),
        ("export PATH=x", "PATH"),
        ("npm -s exec -c x", "-c"),
        ("npm run x --script-sh=y", "--script-sh=y"),
        ("npm config set script-shell x", "npm config"),
        ("uv run python -c x", "-c"),
        ("uv run - ", "-"),
        ("python /dev/stdin", "input"),
        ("python -m timeit x", "timeit"),
        ("python3 /tmp/x.py", "/tmp/x.py"),
        ("sh -s", "-s"),
        ("sed '1e x' f", "sed"),
        ("sed -n -e p -e 'w f' g", "sed"),
        ("awk '{print | \"sh\"}' f", "awk"),
        ("find . -exec {} ;", "data"),
        ("find . -name x -exec sh -c y ;", "-c"),
        ("echo x | xargs env", "data"),
        ("echo x | xargs git", "subcommand"),
        ("echo x | xargs tar cf y", "tar"),
        ("printf -v 'a[x]' y", "-v"),
        ("test -v 'a[x]'", "test"),
        ("unset 'a[x]'", "unset"),
        ("read 'a[x]'", "read"),
        ("declare -i x=1", "declare"),
        ("let x=1", "let"),
        ("mapfile -C x", "mapfile"),
        ("jobs -x ls", "-x"),
        ("eval ls", "eval"),
        ("make SHELL=x", "SHELL=x"),
        ("make --eval=x", "--eval=x"),
        ("make -f - all", "input"),
        ("mvn -Dx='a b'", "-Dx=a b"),
        ("less +!x f", "+"),
        ("ssh h 'a; b'", "shell"),
        ("ssh -o ProxyCommand=x h ls", "ProxyCommand=x"),
        ("cmake -E env x", "-E"),
        ("sqlite3 a.db '.shell x'", "sqlite3"),
        ("apt-get -o x update", "-o"),
        ("docker run --entrypoint x y", "--entrypoint"),
        ("rg --pre x y", "--pre"),
        ("sdiff --diff-program=x a b", "--diff-program=x"),
        ("curl -K x http://a", "-K"),
        ("bun -", "input"),
        ("deno run https://a/x.ts", "https://a/x.ts"),
        ("conda run -p x ls", "-p"),
        # Code that is neither of the project nor of the system, behind any option.
        ("java -XX:OnOutOfMemoryError=/tmp/x -jar a.jar", "/tmp/x"),
        ("gcc -fuse-ld=/tmp/x a.c", "/tmp/x"),
        ("gcc -Wl,--plugin,/tmp/x.so a.c", "/tmp/x.so"),
        ("mvn exec:exec -Dexec.executable=/tmp/x", "/tmp/x"),
        ("npm --prefix /tmp/x test", "/tmp/x"),
        ("make -C/tmp/x", "/tmp/x"),
        ("make -C ~/x", "~/x"),
        ("pytest ../x", "../x"),
        ("pytest /usr/../tmp/x", "/usr/../tmp/x"),
    ],
)
def test_what_is_not_known_is_named(line: str, word: str) -> None:
    assert word in identified(line).unknown


def test_programs_of_the_user_are_known() -> None:
    assert identified("mytool x").unknown == "`mytool` is not known"
    assert identified("mytool x", mytool="reads").unknown == ""
    assert identified("mytool x", mytool="project").project == ("mytool",)
    assert identified("eval x", ls="project").unknown != ""


def test_wrappers_are_runs_of_their_own() -> None:
    assert [run.path[0] for run in identify_rule(("sudo", "rm"))] == ["sudo", "rm"]
    assert [run.path[0] for run in identify_rule(("python", "-m", "pip", "install"))] == ["pip"]


def test_a_table_states_equal_names_values_and_what_runs() -> None:
    table = read_options("-r|-R|--recursive -n|--lines= --color=? -c=~git --exec=! -#")
    parsed = parse_options(table, ["-Rn5", "--lin", "6", "--color", "-7", "x", "--ex=y", "-z"])
    assert [name for name, _ in parsed.options] == ["-r", "-n", "-n", "--color", "-#", "--exec", "-z"]
    assert parsed.operands == (5,)
    assert (parsed.running, parsed.unlisted) == ("--ex=y", "-z")
    assert parse_options(table, ["-c", "a.b=c"]).keyed == (("git", "a.b=c"),)


@pytest.mark.parametrize(
    "script", ["5,10p", "s/a/b/g;s|c|d|2", "/a/,/b/!d", "$!N;P;D", "s/[a-z]*\\/x/y/", "1q", "y/ab/cd/", "/x/{p;d}"]
)
def test_a_script_of_sed_that_only_prints_and_substitutes_is_plain(script: str) -> None:
    assert is_plain_sed(script)


@pytest.mark.parametrize(
    "script",
    [
        "1e x",
        "s/a/b/e",
        "s/a/b/w f",
        "w f",
        "r f",
        "s/[/]/;s/e;p;s/x/",
        "/[/]/p",
        "s/a/b",
        "s/a/b/gew f",
        "{e x",
        "\\|a|p",
    ],
)
def test_any_other_script_of_sed_is_code(script: str) -> None:
    assert not is_plain_sed(script)


@pytest.mark.parametrize(
    "program",
    [
        "{print $1}",
        "NR>=10 && /a|b/",
        'BEGIN{FS=","} {s+=$2} END{print s/NR}',
        "length($0) > 80",
        "{print (a > b)}",
        "!x[$0]++",
    ],
)
def test_a_program_of_awk_that_only_prints_is_plain(program: str) -> None:
    assert is_plain_awk(program)


@pytest.mark.parametrize(
    "program",
    [
        '{print > "f"}',
        '{system("x")}',
        '{system ("x")}',
        '{"x" | getline}',
        '{print | "x"}',
        '@load "x"',
        "{@f()}",
        '{getline l < "f"}',
        "function f(){}",
        "{f(1)}",
        "{print ENVIRON[1]}",
    ],
)
def test_any_other_program_of_awk_is_code(program: str) -> None:
    assert not is_plain_awk(program)


def test_sql_that_runs_nothing_is_plain() -> None:
    assert all(map(is_plain_sql, ("select 1; select 2", ".tables")))
    assert not any(map(is_plain_sql, (".shell x", "select edit('a', 'x')", "select 1;\n.shell x")))


def test_every_entry_of_the_table_can_be_read() -> None:
    table = known._table()
    for name, entry in table.programs.items():
        options = known.options_of(entry)
        assert set(options.keys.values()) <= set(table.values), name
    for one in table.equal.values():
        path = tuple(word for word in one.split() if word[0] != "-")
        assert path == known.path_of(path[:-1], path[-1])[0] or len(path) == 1, one
