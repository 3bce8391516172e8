"""What developers run works inside, in both backends, without the network."""

from __future__ import annotations

import os
import shutil
import site
import sysconfig
from pathlib import Path

import pytest

from dragoman.process.sandbox import Backend
from tests import machine
from tests.process.sandbox.kit import PYTHON, Place, both, git, only_bubblewrap, python, run, shell


@both
@pytest.mark.parametrize("pty", [True, False], ids=["pty", "pipe"])
async def test_git_works(name: Backend, pty: bool, there: Place) -> None:
    git(there.project, "init", "-q", "-b", "main")
    line = (
        "set -e; echo 1 >a; git add a; git commit -qm first; git status --porcelain; git checkout -q -b other; "
        "echo 2 >a; git stash -q; git stash pop -q; git commit -qam second; git checkout -q main; git merge -q other; "
        "git log --format=%s"
    )
    ran = await shell(there.sandbox(name), line, pty=pty)
    assert (ran.code, ran.text) == (0, "second\nfirst\n")


@both
@machine.needs("make", "cc")
async def test_make_compiles_and_runs_a_program(name: Backend, there: Place) -> None:
    (there.project / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (there.project / "Makefile").write_text("all: main\n\t@./main\nmain: main.c\n\t@cc -o main main.c\n")
    ran = await run(there.sandbox(name), "make")
    assert (ran.code, ran.text, ran.denials) == (0, "built\n", [])


@both
@machine.needs("npm")
async def test_npm_runs_a_script_that_writes_and_starts_programs(name: Backend, there: Place) -> None:
    (there.project / "package.json").write_text('{"scripts": {"build": "node build.js && cat built"}}')
    (there.project / "build.js").write_text(
        "require('fs').writeFileSync('built', 'by npm'); require('child_process').execFileSync('true');"
    )
    ran = await run(there.sandbox(name), "npm", "run", "-s", "build")
    assert (ran.code, ran.text) == (0, "by npm")


@both
async def test_pytest_works_with_its_temporary_folders(name: Backend, there: Place) -> None:
    (there.project / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'x').write_text('y')\n    assert (tmp_path / 'x').read_text() == 'y'\n"
    )
    packages = Path(pytest.__file__).parent.parent
    # An environment in /tmp would not be there in bubblewrap.
    copied = there.outside / "packages"
    copied.mkdir()
    for package in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        if (packages / package).is_dir():
            shutil.copytree(packages / package, copied / package)
    if (packages / "py.py").exists():
        shutil.copy(packages / "py.py", copied)
    ran = await run(there.sandbox(name), PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", PYTHONPATH=str(copied))
    assert ran.code == 0, ran.text
    assert "1 passed" in ran.text


@both
async def test_an_environment_is_made_and_a_local_wheel_installed(name: Backend, there: Place) -> None:
    pip = next(
        (p for p in (*site.getsitepackages(), sysconfig.get_paths()["purelib"]) if (Path(p) / "pip").is_dir()), ""
    )
    if not pip:
        pytest.skip("pip is not installed")
    (there.project / "pkg").mkdir()
    (there.project / "pkg" / "greet.py").write_text("print('greeted')\n")
    copied = there.outside / "packages"
    shutil.copytree(Path(pip) / "pip", copied / "pip")
    make_wheel = (
        "import zipfile; z = zipfile.ZipFile('greet-1-py3-none-any.whl', 'w'); z.write('pkg/greet.py', 'greet.py'); "
        "z.writestr('greet-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: greet\\nVersion: 1\\n'); "
        "z.writestr('greet-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'); "
        "z.writestr('greet-1.dist-info/RECORD', 'greet.py,,\\n'); z.close()"
    )
    line = (
        f'set -e; {PYTHON} -c "$MAKE"; {PYTHON} -m venv --without-pip env; '
        f"PYTHONPATH={copied} env/bin/python -m pip install -q --no-index ./greet-1-py3-none-any.whl; "
        "env/bin/python -m greet"
    )
    ran = await shell(there.sandbox(name), line, MAKE=make_wheel)
    assert ran.code == 0, ran.text
    assert ran.text.endswith("greeted\n")


@both
async def test_multiprocessing_shared_memory_and_asyncio_work(name: Backend, there: Place) -> None:
    (there.project / "pool.py").write_text(
        "import asyncio, multiprocessing as m, subprocess\n"
        "from multiprocessing import shared_memory\n"
        "def double(x): return x * 2\n"
        "async def main():\n"
        "    p = await asyncio.create_subprocess_exec('true')\n"
        "    return await p.wait()\n"
        "if __name__ == '__main__':\n"
        "    with m.Pool(2) as pool: print(pool.map(double, [1, 2]))\n"
        "    s = shared_memory.SharedMemory(create=True, size=10); s.close(); s.unlink()\n"
        "    print(asyncio.run(main()))\n"
    )
    ran = await run(there.sandbox(name), PYTHON, "pool.py")
    assert (ran.code, ran.text) == (0, "[2, 4]\n0\n")


@both
async def test_here_documents_pipes_links_and_databases_work(name: Backend, there: Place) -> None:
    line = "cat <<EOF >a\nhere\nEOF\nmkfifo p; (cat a >p &); cat p; ln a b; ln -s a c; mkdir d; mv b d/b; cat c d/b"
    assert (await run(there.sandbox(name), machine.program("bash") or "sh", "-c", line)).text == "here\n" * 3
    code = (
        "import sqlite3; c = sqlite3.connect('x'); c.execute('pragma journal_mode=wal'); c.execute('create table t(a)')"
    )
    assert (await python(there.sandbox(name), code)).code == 0


@both
async def test_a_terminal_is_there_with_its_size(name: Backend, there: Place) -> None:
    code = (
        "import os; tty = os.open('/dev/tty', os.O_RDWR); os.write(tty, b'seen\\n'); "
        "print(os.isatty(1), *os.get_terminal_size(1)); a, b = os.openpty(); print(os.isatty(b), os.isatty(0))"
    )
    assert (await python(there.sandbox(name), code, pty=True)).text == "seen\nTrue 120 40\nTrue False\n"


@only_bubblewrap
async def test_a_server_and_its_client_in_one_command_work_in_bubblewrap(name: Backend, there: Place) -> None:
    (there.project / "index.html").write_text("served")
    code = (
        "import http.server as h, threading, urllib.request as u\n"
        "s = h.ThreadingHTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
        "print(u.urlopen(f'http://127.0.0.1:{s.server_port}/index.html').read())\n"
    )
    assert "b'served'" in (await python(there.sandbox(name), code)).text


@both
async def test_exit_codes_pass_through(name: Backend, there: Place) -> None:
    for code in (0, 1, 7, 126):
        assert (await shell(there.sandbox(name), f"exit {code}")).code == code


@both
async def test_only_the_standard_descriptors_are_open(name: Backend, there: Place) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    try:
        ran = await shell(there.sandbox(name), "ls /proc/self/fd")
    finally:
        os.close(read_end)
        os.close(write_end)
    assert ran.text.split() == ["0", "1", "2", "3"]
