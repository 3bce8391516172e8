"""What an allow of a command covers, and every way out of it that we know."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.policy import Command, Request, judge, parse_rule, simple_command
from dragoman.policy.commands import quote

NPM_TEST = [parse_rule("execute:npm test *", "allow", "flag", "--allow")]
PLAIN = [parse_rule("execute", "allow", "flag", "--allow"), parse_rule("*", "allow", "flag", "--allow")]


def line(text: str, cwd: str = "") -> Request:
    return Request("a", "execute", text, command=Command(line=text, cwd=cwd), root="/p", home="/home/u")


def argv(*words: str) -> Request:
    return Request("a", "execute", " ".join(words), command=Command(words), root="/p", home="/home/u")


COVERED = [
    "npm test",
    "  npm   test\t",
    "npm test -- --watch=false",
    "npm test 'a b' \"c d\"",
    "npm test 'a;b' '$(id)' '`id`' '>x' '*' '~' '#' '!' '{a,b}'",
    'npm test "a;b|c>d*~#{x}"',
    "npm test foo@1.2 a/b:c,d+e=f%g",
    "'npm' \"test\" x",
    "npm te'st'",
]

# Read by the shell as more words, or as less than words.
COVERED_TOO = [
    "npm test 2>&1",
    "npm test \\\nid",
    "npm test \\; id",
    "npm test ~/x",
    "npm test ~",
    "npm test # comment",
    "npm test !!",
    'npm test "!!"',
    "npm test ^a^b",
    "npm test 'a\\'' ; id '",
    "npm test 'a\\'",
    "npm test >/dev/null 2>&1",
    "npm test 2>&1 | tail -20",
    "cd web && npm test",
    "cd /p/web && npm test a | grep -v b | wc -l",
    "npm test && npm test x; echo done",
    "CI=1 npm test",
    "npm test src/*.test.js",
]

ESCAPES = [
    "npm test; id",
    "npm test;id",
    "npm test & id",
    "npm test &",
    "npm test && id",
    "npm test || id",
    "npm test | sh",
    "npm test |& sh",
    "npm test $(id)",
    'npm test "$(id)"',
    "npm test `id`",
    'npm test "`id`"',
    "npm test $HOME",
    'npm test "$HOME"',
    "npm test ${IFS}x",
    "npm test $'\\n'",
    "npm test > ~/.bashrc",
    "npm test >x",
    "npm test < /etc/passwd",
    "npm test <<< x",
    "npm test <(id)",
    "npm test >(id)",
    "npm test\nid",
    "npm test\rid",
    "npm test\r\nid",
    "npm test\x0bid",
    "npm test\x00id",
    "npm test\u2028id",
    "npm test\u0085id",
    "npm test\u202eid",
    "npm\u00a0test",
    "npm test *",
    "npm test ?",
    "npm test [a]",
    "npm test {a,b}",
    "npm test a=~",
    "npm test 2>&1 | tail -20 x",
    "npm test | tail -f",
    "npm test | tee x",
    "npm test > x",
    "npm test < ../x",
    "cd .. && npm test",
    "cd /tmp && npm test",
    "cd web; cd ../.. && npm test",
    "cd - && npm test",
    "cd && npm test",
    "CI=1 PATH=. npm test",
    "npm test -*",
    "npm test 'open",
    'npm test "open',
    "npm test (id)",
    "(npm test)",
    "{ npm test; }",
    "! npm test",
    "A=b npm test",
    "A= npm test",
    "A+=b npm test",
    "PATH=/tmp npm test",
    "'A'=b npm test",
    "=npm test",
    "%1 npm test",
    "env npm test",
    "env A=b npm test",
    "/usr/bin/env npm test",
    "xargs npm test",
    "sudo npm test",
    "doas npm test",
    "nohup npm test",
    "time npm test",
    "nice npm test",
    "timeout 5 npm test",
    "eval npm test",
    "exec npm test",
    "command npm test",
    "builtin npm test",
    "sh -c 'npm test; id'",
    "bash -c 'npm test' id",
    'bash -lc "npm test && id"',
    "bash -lc 'bash -c \"npm test; id\"'",
    "ssh host npm test",
    "find . -exec npm test +",
    "python -c 'import os'",
    "node -e 1",
    "if true; then npm test; fi",
    "function npm { id; }; npm test",
    "npm () { id; }",
    "coproc npm test",
    "npm testing",
    "npm",
    "npm run test",
    "NPM test",
    "./npm test",
    "/tmp/npm test",
    "npm test --script-shell=/tmp/x",
    "npm test --script-sh /tmp/x",
    "npm test --node-options=--require=/tmp/x",
    "npm test --prefix /tmp",
    "",
    " ",
    "''",
]


@pytest.mark.parametrize("text", COVERED + COVERED_TOO)
def test_an_allowed_beginning_covers_more_literal_words(text: str) -> None:
    assert judge(NPM_TEST, line(text)).action == "allow"
    assert judge(NPM_TEST, argv("bash", "-lc", text)).action == "allow"


@pytest.mark.parametrize("text", ESCAPES)
def test_allowed_first_words_do_not_cover_more_than_they_state(text: str) -> None:
    assert judge(NPM_TEST, line(text)).action == "ask"
    assert judge(NPM_TEST, argv("/bin/bash", "-lc", text)).action == "ask"
    assert judge(NPM_TEST, argv("sh", "-c", text)).action == "ask"


@pytest.mark.parametrize(
    "words",
    [
        ("bash", "-lc", "npm test; id"),
        ("bash", "-c", "npm test", "id"),
        ("csh", "-c", "npm test '!!'"),
        ("bash", "--rcfile", "/tmp/x", "-c", "npm test"),
        ("bash", "-o", "x", "-c", "npm test"),
        ("./bash", "-c", "npm test"),
        ("/tmp/bash", "-c", "npm test"),
        ("env", "npm", "test"),
        ("npm test",),
        ("npm", "testing"),
        ("npm",),
        ("npm", "test", "--script-shell", "/tmp/x"),
        (),
    ],
)
def test_words_that_are_not_the_allowed_command_are_asked_about(words: tuple[str, ...]) -> None:
    assert judge(NPM_TEST, argv(*words)).action == "ask"


def test_words_given_as_words_need_no_shell_to_read_them() -> None:
    assert judge(NPM_TEST, argv("npm", "test", "a; id", "$(id)", "x\ny")).action == "allow"


def test_a_rule_without_a_star_means_exactly_these_words() -> None:
    rules = [parse_rule("execute:npm test", "allow", "project")]
    assert judge(rules, line("npm test")).action == "allow"
    assert judge(rules, line("npm test x")).action == "ask"
    assert judge(rules, argv("npm", "test", "")).action == "ask"


@pytest.mark.parametrize("text", ["sudo systemctl restart x", "python -c 'print(1)'", "env A=b make", "find . -delete"])
def test_the_exact_words_of_a_wrapper_can_be_allowed(text: str) -> None:
    rules = [parse_rule(f"execute:{text}", "allow", "pinned")]
    assert judge(rules, line(text)).action == "allow"
    assert judge(rules, line(f"{text} x")).action == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "python *",
        "python3 -c *",
        "/usr/bin/python3.12 *",
        "python -m *",
        "python -m pip *",
        "node *",
        "node -e *",
        "bash *",
        "bash -c *",
        "sudo *",
        "sudo npm test *",
        "env *",
        "env npm test *",
        "xargs rm *",
        "timeout 5 npm test *",
        "ssh host *",
        "awk *",
        "npx *",
        "uv run *",
        "uv run python *",
        "docker run *",
        "git -c a=b log *",
        "git config *",
        "find . -exec *",
        "eval *",
        "exec *",
        "vim *",
        "tee *",
    ],
)
def test_a_beginning_that_runs_anything_is_refused_as_a_rule(text: str) -> None:
    with pytest.raises(ConfigError, match="would trust too much"):
        parse_rule(f"execute:{text}", "allow", "flag", "--allow")
    assert parse_rule(f"execute:{text}", "deny", "flag").action == "deny"


@pytest.mark.parametrize("text", ["bash -c 'npm test'", "/bin/sh -lc 'npm test'", "sh -c 'npm test' *"])
def test_a_rule_names_the_command_and_not_the_shell_around_it(text: str) -> None:
    with pytest.raises(ConfigError, match="wraps a command in a shell"):
        parse_rule(f"execute:{text}", "allow", "flag")


@pytest.mark.parametrize(
    ("rule", "covered", "asked"),
    [
        ("python -m pytest *", "python -m pytest -x tests", "python -c 1"),
        ("python manage.py *", "python manage.py migrate", "python other.py"),
        ("uv run pytest *", "uv run pytest -x", "uv run --with x pytest"),
        ("npx jest *", "npx jest a.test.js", "npx -y jest"),
        ("git log *", "git log --oneline -5", "git log --output=/tmp/x"),
        ("git fetch *", "git fetch origin", "git fetch --upload-pa=/tmp/x origin"),
        ("git clone *", "git clone https://example.org/x", "git clone -u /tmp/x y"),
        ("git *", "git status", "git -c core.pager=id log"),
        ("git *", "git add config", "git config core.pager id"),
        ("find . *", "find . -name x", "find . -name x -exec id +"),
        ("tar *", "tar -tf x.tar", "tar -xf x.tar --checkpoint-act=exec=id"),
        ("make *", "make test", "make SHELL=/tmp/x test"),
        ("rg *", "rg foo src", "rg --pre /tmp/x foo"),
        ("go test *", "go test ./...", "go test -exec /tmp/x ./..."),
    ],
)
def test_a_beginning_covers_its_program_and_not_what_it_can_be_made_to_run(rule: str, covered: str, asked: str) -> None:
    rules = [parse_rule(f"execute:{rule}", "allow", "pinned")]
    assert judge(rules, line(covered)).action == "allow"
    verdict = judge(rules, line(asked))
    assert verdict.action == "ask"
    assert verdict.rule is None


@pytest.mark.parametrize(
    "text", ["npm test*", "npm test; id", "npm * x", "", "A=b npm", "npm test $X", "npm 'x", "npm test:*"]
)
def test_a_pattern_that_is_not_a_simple_command_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"simple command|nothing after the colon"):
        parse_rule(f"execute:{text}", "deny", "pinned")


@pytest.mark.parametrize("text", ["ls -l src", "npm test", "cargo build --release"])
def test_the_kind_alone_covers_plain_commands(text: str) -> None:
    assert {judge([rule], line(text)).action for rule in PLAIN} == {"allow"}


@pytest.mark.parametrize(
    "text", ["npm test; sudo id", "npm test > x", "sudo id", "python -c 1", "cd /x && make", "A=b make", "a | sh"]
)
def test_execute_does_not_cover_wrappers_and_written_files_but_everything_does(text: str) -> None:
    commands, everything = PLAIN
    assert judge([commands], line(text)).action == "ask"
    assert judge([everything], line(text)).action == "allow"


def test_every_command_whatever_it_is_can_be_typed_as_a_flag_and_not_kept() -> None:
    rules = [parse_rule("execute:*", "allow", "flag", "--allow")]
    assert judge(rules, line("cd src && make 2>&1 | tail")).action == "allow"
    assert judge(rules, line("echo x >> ~/.bashrc")).action == "ask"
    with pytest.raises(ConfigError, match="typed as a flag"):
        parse_rule("execute:*", "allow", "pinned", "rules.json")


def test_a_command_that_could_not_be_read_matches_no_words() -> None:
    unread = Request("a", "execute", "npm test", root="/p")
    assert judge(NPM_TEST, unread).action == "ask"
    assert judge(PLAIN, unread).action == "allow"


def test_words_are_about_the_project_and_not_about_another_folder() -> None:
    assert judge(NPM_TEST, line("npm test", cwd="/p/web")).action == "allow"
    assert judge(NPM_TEST, line("npm test", cwd="sub/../web")).action == "allow"
    for elsewhere in ("/tmp", "/p/../tmp", "/p-evil", ".."):
        assert judge(NPM_TEST, line("npm test", cwd=elsewhere)).action == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf x",
        "/bin/rm -rf x",
        "sudo rm -rf x",
        "ls; rm -rf x",
        "ls && sudo -n rm -rf x",
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        "A=b rm -rf x",
        "\\rm -rf x",
        "r'm' -rf x",
        "bash -c 'rm -rf x'",
        "find . | xargs rm -rf x",
        "sh -c 'ls; rm -rf x'",
        "if true; then rm -rf x; fi",
        "npm test\nrm -rf x",
    ],
)
def test_a_deny_looks_into_every_part_of_a_line(text: str) -> None:
    rules = [parse_rule("execute:rm *", "deny", "pinned"), parse_rule("execute:*", "allow", "flag")]
    assert judge(rules, line(text)).action == "deny"


def test_a_deny_does_not_take_an_argument_for_a_program() -> None:
    rules = [parse_rule("execute:rm *", "deny", "pinned"), parse_rule("execute:git *", "allow", "pinned")]
    assert judge(rules, line("git rm x")).action == "allow"


@given(st.text(max_size=30), st.sampled_from([";", "|", "&", "\n", "$(", "`", "("]))
def test_no_other_program_after_an_operator_is_covered(tail: str, operator: str) -> None:
    clean = tail.replace("'", "").replace('"', "").replace("#", "").replace("\\", "")
    assert judge(NPM_TEST, line(f"npm test {clean}{operator} id {tail}")).action == "ask"


@given(st.lists(st.text(max_size=12), min_size=1, max_size=5))
def test_a_line_that_is_read_as_words_is_what_a_shell_passes_on(words: list[str]) -> None:
    quoted = quote(tuple(words))
    if quoted is not None:
        assert simple_command(quoted) == tuple(words)


@given(st.text(alphabet="ab '\"\\$;&|<>(){}*?~#!=\n\t-`", max_size=20))
def test_what_is_read_as_words_is_split_as_the_posix_shell_splits_it(text: str) -> None:
    words = simple_command(text)
    if words is not None:
        assert list(words) == shlex.split(text, comments=False)


def test_a_shell_passes_on_the_words_we_read() -> None:
    script = "".join(f"printf '%s\\0' {text}; printf '\\n'\n" for text in COVERED)
    printed = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert [tuple(words.split("\0")[:-1]) for words in printed.stdout.splitlines()] == [
        simple_command(text) for text in COVERED
    ]


# What follows the words of a rule is known to run nothing else.
STATED = {
    "execute:git *": """
        git status
        git log --oneline -5
        git diff HEAD~1
        git add -A
        git commit -m 'a b'
        git push origin main
        git checkout -b x
        git stash pop
        git rebase main
        git show HEAD:x
        git branch -a
        git fetch --all
        git remote -v
        git worktree list
        git tag v1
        git cherry-pick abc
        git clean -fd
        git log --format='%h %s' --since=yesterday
        git blame x
        git rev-parse HEAD
        git ls-files
        git --no-pager worktree list
    """,
    "execute:npm *": """
        npm test
        npm run build
        npm ci
        npm install
        npm i lodash
        npm run lint -- --fix
        npm ls
        npm outdated
        npm test -- --watch=false
        npm run build --silent
        npm install --save-dev x
        npm view x version
    """,
    "execute:uv *": """
        uv sync
        uv add x
        uv lock
        uv pip list
        uv pip install -r requirements.txt
        uv build
        uv --version
        uv tree
        uv venv
    """,
    "execute:docker *": """
        docker ps -a
        docker images
        docker logs x
        docker stop x
        docker pull alpine
        docker rm -f x
        docker inspect x
    """,
    "execute:cmake *": """
        cmake -S . -B build
        cmake --build build -j 4
        cmake ..
        cmake -DCMAKE_BUILD_TYPE=Release ..
        cmake --build build --target test
        cmake --install build
        cmake -G Ninja -B b
    """,
    "execute:just *": """
        just
        just build
        just test -v
        just -l
        just --list
        just build release
    """,
    "execute:make *": """
        make
        make test
        make -j4 all
        make -k check
    """,
    "execute:uv run pytest *": """
        uv run pytest -q
        uv run pytest tests/x.py -k 'a or b'
    """,
    "execute:python manage.py *": """
        python manage.py migrate --noinput
    """,
    "execute:npx eslint *": """
        npx eslint src --fix
    """,
    "execute:cargo *": """
        cargo build --release
        cargo test x
        cargo fmt
        cargo clippy -- -D warnings
    """,
    "execute:ls *": """
        ls -la x
    """,
    "execute:go *": """
        go test ./...
        go build ./...
    """,
    "execute:./x.sh *": """
        ./x.sh a -b
    """,
    "execute:mytool *": """
        mytool --x y
    """,
    "execute:pytest *": """
        pytest -q tests -k 'a or b'
        pytest tests/a.py::test_b
    """,
    "execute:ruff *": """
        ruff check --fix src
    """,
    "execute:mypy *": """
        mypy src
    """,
    "execute:tsc *": """
        tsc --noEmit
    """,
    "execute:npm run *": """
        npm run build -- --x 'a b'
    """,
    "execute:kubectl *": """
        kubectl -n dev get pods
    """,
}

# An option, a subcommand or a word behind them runs something else, or brings along what decides that.
RUNS_ELSE = {
    "execute:git *": """
        git -c core.pager=x log
        git --exec-path=/x status
        git clone -u x y
        git log --ext-diff
        git difftool -x id
        git bisect run id
        git submodule foreach id
        git grep -O x
        git config alias.x '!id'
        git x
        git fetch --upload-pack=id
        git rebase -x id
        git archive --remote=x --exec=id
        git push ext::id
        git -C /x status
        git rebase --exec=id main
        git rebase -i --exec id
        git commit --template=x
        git commit -t x
        git init --template=/x
        git log --output=x
    """,
    "execute:npm *": """
        npm --script-shell=/x test
        npm test --script-shell /x
        npm -s exec -c id
        npm x foo
        npm exec id
        npm config set script-shell /x
        npm pkg set scripts.test=id
        npm test --scrip=/x
        npm install --prefix=/x
        npm init foo
        npm explore x -- id
        npm i x --node-options=--require=./x
        npm --node-options=-r./x test
    """,
    "execute:uv *": """
        uv run --with x y
        uv -q run id
        uv run id
        uv tool run x
        uv tool run --from x y
        uvx x
        uv run -m x
        uv --config-file /x sync
    """,
    "execute:docker *": """
        docker run -v /:/x img
        docker run img
        docker -H x run img
        docker exec c sh
        docker container run img id
        docker compose run x id
        docker create -v /:/x img
        docker compose exec x sh
        docker compose -f x up
        docker build .
        docker buildx bake
        docker compose up
        docker --config /x ps
        docker -H tcp://evil ps
    """,
    "execute:cmake *": """
        cmake -E env id
        cmake -P x.cmake
        cmake -C x .
        cmake --find-package
        cmake -DCMAKE_C_COMPILER=/x .
        cmake --workflow x
        cmake --open x
        cmake -DCMAKE_CXX_COMPILER_LAUNCHER=id -S . -B b
    """,
    "execute:just *": """
        just --shell id
        just --shell=/x build
        just -c id
        just --command id
        just -f /x
        just --chooser id --choose
        just --set x y build
        just -e
    """,
    "execute:make *": """
        make --eval x
        make -f x
        make SHELL=x
        make -C /x
        make -E x
        make CC=id
    """,
    "execute:kubectl *": """
        kubectl --kubeconfig=/x get pods
        kubectl exec p -- id
    """,
}


def _each(lines: dict[str, str]) -> list[tuple[str, str]]:
    return [(rule, text.strip()) for rule, block in lines.items() for text in block.strip().splitlines()]


@pytest.mark.parametrize(("rule", "text"), _each(STATED))
def test_first_words_cover_what_is_known_to_do_no_other_thing(rule: str, text: str) -> None:
    assert judge([parse_rule(rule, "allow", "flag", "--allow")], line(text)).action == "allow"


@pytest.mark.parametrize(("rule", "text"), _each(RUNS_ELSE))
def test_first_words_do_not_cover_what_runs_something_else(rule: str, text: str) -> None:
    assert judge([parse_rule(rule, "allow", "flag", "--allow")], line(text)).action == "ask"
