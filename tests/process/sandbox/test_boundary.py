"""What each backend stops, and what it lets pass, by real attempts.

The table of docs/sandbox.md is this file. Each attempt is first made without a sandbox, where it succeeds: otherwise a
refusal would show nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest

from dragoman.process.sandbox import Backend, landlock
from tests.process.sandbox.kit import (
    PYTHON,
    Place,
    both,
    git,
    only_bubblewrap,
    only_thread,
    outside,
    python,
    run,
    shell,
    sleeper,
)

signals = pytest.mark.skipif(landlock.abi() < landlock.ABI_SIGNALS, reason="this kernel's Landlock has no scopes")


@both
@pytest.mark.parametrize(
    "line",
    [
        "echo x >OUT/file",
        "echo x >>OUT/file",
        "echo x >OUT/new",
        "rm OUT/file",
        "mv OUT/file OUT/other",
        "mv OUT/file .",
        "ln OUT/file linked && echo x >linked",
        "truncate -s 0 OUT/file",
        "mkdir OUT/folder",
        "ln -s x OUT/link",
        "mkfifo OUT/pipe",
        "ln -s OUT way && echo x >way/file",
    ],
)
async def test_nothing_outside_the_roots_is_changed(name: Backend, line: str, there: Place) -> None:
    command = line.replace("OUT", str(there.outside))
    ran = await shell(there.sandbox(name), command)
    assert ran.code != 0
    assert os.listdir(there.outside) == ["file"]
    assert (there.outside / "file").read_text() == "before"
    for made in there.project.iterdir():
        made.unlink()
    assert outside("sh", "-c", command, cwd=there.project)[0] == 0


@both
async def test_roots_temporary_folder_and_extra_folders_are_writable(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name, writable=[there.outside])
    line = f'mkdir a && echo 1 >a/b && mv a/b c && echo 2 >"$TMPDIR/t" && echo 3 >{there.outside}/file && rm c'
    ran = await shell(sandbox, line)
    assert (ran.code, ran.text, ran.denials) == (0, "", [])
    assert (there.temporary / "t").read_text() == "2\n"
    assert (there.outside / "file").read_text() == "3\n"


@both
async def test_secrets_cannot_be_read_and_the_rest_of_the_home_can(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name)
    ran = await shell(sandbox, f"cat {there.home}/.ssh/id {there.home}/.netrc; ln -s {there.home}/.ssh s; cat s/id")
    assert "secret" not in ran.text
    assert ran.code != 0
    assert (await shell(sandbox, f"cat {there.home}/notes && ls / {there.home} >/dev/null")).text == "notes"


@both
async def test_a_secret_folder_that_appears_later_is_hidden_too(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name)
    assert (await shell(sandbox, "true")).code == 0
    (there.home / ".aws").mkdir()
    (there.home / ".aws" / "credentials").write_text("secret-aws")
    assert "secret" not in (await shell(sandbox, f"cat {there.home}/.aws/credentials")).text


@both
async def test_a_file_made_after_the_first_command_can_be_read(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name)
    assert (await shell(sandbox, "true")).code == 0
    (there.home / "later").write_text("later")
    assert (await shell(sandbox, f"cat {there.home}/later")).text == "later"


CONNECT = "import socket; s = socket.create_connection(('127.0.0.1', {port}), 5); print('connected')"
DATAGRAM = "import socket; s = socket.socket(2, 2); s.sendto(b'x', ('127.0.0.1', {port})); print('connected')"
MULTIPATH = "import socket; s = socket.socket(2, 1, 262); s.connect(('127.0.0.1', {port})); print('connected')"
SIXTH = "import socket; s = socket.socket(10, 2); s.sendto(b'x', ('::1', {port})); print('connected')"


@both
@pytest.mark.parametrize("code", [CONNECT, MULTIPATH], ids=["tcp", "mptcp"])
async def test_a_server_outside_cannot_be_reached(name: Backend, code: str, there: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        attempt = code.format(port=server.getsockname()[1])
        ran = await python(there.sandbox(name), attempt)
        assert "connected" not in ran.text
        assert ran.code != 0
        if code == CONNECT:
            assert (await python(there.sandbox(name, network=True), attempt)).text == "connected\n"


@both
async def test_a_datagram_does_not_leave(name: Backend, there: Place) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        attempt = DATAGRAM.format(port=receiver.getsockname()[1])
        await python(there.sandbox(name), attempt)
        with pytest.raises(BlockingIOError):
            receiver.recv(10)
        assert (await python(there.sandbox(name, network=True), attempt)).text == "connected\n"
        assert receiver.recv(10) == b"x"


@only_thread
@pytest.mark.parametrize(
    ("code", "family"),
    [
        (CONNECT.format(port=9), "inet"),
        (SIXTH.format(port=9), "inet6"),
        ("import socket; socket.socket(socket.AF_PACKET, 3, 0)", "17"),
        ("import socket; socket.socket(40, 1)", "40"),
    ],
)
async def test_the_network_is_reported_exactly_with_the_program_that_wanted_it(
    name: Backend, code: str, family: str, there: Place
) -> None:
    ran = await python(there.sandbox(name), code)
    assert [(each.kind, each.subject) for each in ran.denials] == [
        ("network", f"{os.path.basename(PYTHON)[:15]}, {family}")
    ]
    assert (await python(there.sandbox(name), "import socket; socket.socketpair()")).denials == []


@only_bubblewrap
@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("s = socket.socket(); s.connect(('192.0.2.7', 443))", "192.0.2.7 port 443"),
        ("s = socket.socket(2, 2); s.sendto(b'x', ('192.0.2.7', 9))", "192.0.2.7 port 9"),
        ("s = socket.socket(10, 1); s.connect(('2001:db8::1', 443))", "2001:db8::1 port 443"),
        ("s = socket.socket(10, 1); s.connect(('::ffff:192.0.2.7', 443))", "192.0.2.7 port 443"),
        ("s = socket.socket(2, 2); s.connect(('127.0.0.53', 53))", "127.0.0.53 port 53"),
    ],
)
async def test_the_network_is_reported_with_its_address_in_bubblewrap(
    name: Backend, code: str, wanted: str, there: Place
) -> None:
    ran = await python(there.sandbox(name), f"import socket\n{code}")
    program = os.path.basename(PYTHON)[:15]
    assert [(each.kind, each.subject) for each in ran.denials] == [("network", f"{program}, {wanted}")]


@only_bubblewrap
async def test_local_connections_and_wild_addresses_are_not_reported_in_bubblewrap(name: Backend, there: Place) -> None:
    code = (
        "import ctypes, socket; s = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(s.getsockname(), 5); a, b = socket.socketpair(); a.send(b'x'); "
        "l = ctypes.CDLL(None, use_errno=True); t = socket.socket(); "
        "l.connect.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong]; "
        "print([l.connect(t.fileno(), place, 16) for place in (0, 8, 2**64 - 1, 2**63)])"
    )
    ran = await python(there.sandbox(name), code)
    assert (ran.text, ran.denials) == ("[-1, -1, -1, -1]\n", [])


@both
async def test_packet_and_virtual_machine_sockets_are_refused_even_with_the_network(
    name: Backend, there: Place
) -> None:
    sandbox = there.sandbox(name, network=True)
    for family in (17, 40):
        ran = await python(sandbox, f"import socket; socket.socket({family}, 3, 0)")
        assert "PermissionError" in ran.text


@only_bubblewrap
async def test_loopback_works_inside_bubblewrap(name: Backend, there: Place) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(s.getsockname(), 5); print('connected')"
    )
    assert (await python(there.sandbox(name), code)).text == "connected\n"


@only_thread
async def test_unix_sockets_outside_cannot_be_reached_from_the_thread(name: Backend, there: Place) -> None:
    path = there.outside / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r}); print('connected')"
        assert "connected" not in (await python(there.sandbox(name), code)).text
        assert outside(PYTHON, "-c", code) == (0, "connected\n")


@only_bubblewrap
async def test_sockets_of_services_are_not_there_in_bubblewrap(name: Backend, there: Place) -> None:
    ran = await shell(there.sandbox(name), "ls -A /run /tmp /var/tmp")
    assert ran.text.split() == ["/run:", "/tmp:", "/var/tmp:"]


@signals
@both
async def test_processes_outside_get_no_signals(name: Backend, there: Place) -> None:
    with sleeper() as other:
        assert (await shell(there.sandbox(name), f"kill -KILL {other.pid}")).code != 0
        assert other.poll() is None
        assert outside("kill", "-KILL", str(other.pid))[0] == 0


@both
async def test_the_environment_of_a_process_outside_cannot_be_read(name: Backend, there: Place) -> None:
    with sleeper(PLACE="canary-11") as other:
        environ = f"/proc/{other.pid}/environ"
        assert "canary" not in (await shell(there.sandbox(name), f"cat {environ}")).text
        assert "canary" in outside("cat", environ)[1]


@both
async def test_a_command_has_no_capabilities(name: Backend, there: Place) -> None:
    """Root could otherwise mount everything writable again, or load a module."""
    ran = await shell(there.sandbox(name), "grep -E 'CapPrm|CapEff|NoNewPrivs' /proc/self/status")
    assert ran.text.split() == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"]


@both
@pytest.mark.parametrize(
    "code",
    [
        "l.syscall(425, 8, p)",  # io_uring_setup
        "l.syscall({'x86_64': 250, 'aarch64': 219}[m], 0, 0, 0)",  # keyctl
        "l.syscall({'x86_64': 321, 'aarch64': 280}[m], 0, p, 120)",  # bpf
        "l.ioctl(0, 0x5412, p)",  # TIOCSTI
        "l.ioctl(0, 0x100005412, p)",  # the kernel looks at the lower half only
    ],
    ids=["io_uring", "keyctl", "bpf", "TIOCSTI", "wide TIOCSTI"],
)
async def test_dangerous_system_calls_are_refused(name: Backend, code: str, there: Place) -> None:
    source = (
        "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); m = os.uname().machine; "
        f"p = ctypes.create_string_buffer(200); l.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]; "
        f"print({code}, ctypes.get_errno())"
    )
    assert (await python(there.sandbox(name), source)).text == "-1 1\n"
    # Another error than EPERM, or none, without the sandbox: a filter that refuses nothing would be noticed.
    assert outside(PYTHON, "-I", "-c", source)[1] != "-1 1\n"


def _write(there: Place) -> Callable[[str], str]:
    git(there.project, "init", "-q")
    (there.project / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (there.project / ".git" / "info" / "attributes").write_text("")
    (there.project / ".vscode").mkdir()
    (there.project / "AGENTS.md").write_text("before")
    (there.project / "sub").mkdir()
    (there.project / "sub" / "CLAUDE.md").write_text("before")
    return lambda path: (there.project / path).read_text()


PROTECTED = [
    "echo x >.git/hooks/pre-commit",
    "echo x >.git/hooks/pre-push",
    "rm .git/hooks/pre-commit",
    "echo x >>.git/config",
    "git config core.pager evil",
    "echo x >.git/info/attributes",
    "echo x >.vscode/tasks.json",
    "mv .vscode other",
    "echo x >AGENTS.md",
    "rm AGENTS.md",
    "echo x >sub/CLAUDE.md",
    "mv .git other && mkdir .git",
    "mv .git/info other",
]


@only_bubblewrap
@pytest.mark.parametrize("line", PROTECTED)
async def test_existing_protected_files_are_read_only_in_bubblewrap(name: Backend, line: str, there: Place) -> None:
    read = _write(there)
    config = read(".git/config")
    assert (await shell(there.sandbox(name), line)).code != 0
    assert (read(".git/hooks/pre-commit"), read("AGENTS.md"), read(".git/config")) == ("#!/bin/sh\n", "before", config)
    assert read("sub/CLAUDE.md") == "before"
    assert not os.listdir(there.project / ".vscode")
    assert outside("sh", "-c", line, cwd=there.project)[0] == 0


@both
async def test_nothing_is_left_on_protected_paths_that_did_not_exist(name: Backend, there: Place) -> None:
    git(there.project, "init", "-q")
    assert (await shell(there.sandbox(name), "git status --porcelain")).text == ""
    assert os.listdir(there.project) == [".git"]


@only_bubblewrap
async def test_more_protected_files_than_can_be_bound_are_reported(name: Backend, there: Place) -> None:
    for number in range(100):
        (there.project / f"{number}").mkdir()
        (there.project / f"{number}" / "AGENTS.md").touch()
    sandbox = there.sandbox(name)
    assert "36 protected files are too many" in sandbox.describe()
    assert (await shell(sandbox, "true")).code == 0


@both
@pytest.mark.parametrize("line", ["chmod 777 OUT/file", "touch -d 2001-01-01 OUT/file"])
async def test_modes_and_times_outside_are_safe_in_bubblewrap_only(name: Backend, line: str, there: Place) -> None:
    before = (there.outside / "file").stat()
    ran = await shell(there.sandbox(name), line.replace("OUT", str(there.outside)))
    found = (there.outside / "file").stat()
    is_same = (before.st_mode, before.st_mtime) == (found.st_mode, found.st_mtime)
    assert (ran.code == 0, is_same) == ((True, False) if name == "thread" else (False, True))


@both
async def test_names_of_secrets_can_be_seen_on_the_thread_only(name: Backend, there: Place) -> None:
    ran = await shell(there.sandbox(name), f"ls {there.home}/.ssh")
    assert ran.text == ("id\n" if name == "thread" else "")


@both
async def test_command_lines_of_others_can_be_seen_on_the_thread_only(name: Backend, there: Place) -> None:
    with sleeper() as other:
        ran = await shell(there.sandbox(name), f"cat /proc/{other.pid}/cmdline")
        assert ("1000" in ran.text) == (name == "thread")


@both
async def test_other_terminals_can_be_written_on_the_thread_only(name: Backend, there: Place) -> None:
    ours, theirs = os.openpty()
    try:
        ran = await shell(there.sandbox(name), f"[ -e {os.ttyname(theirs)} ] && echo x >{os.ttyname(theirs)}")
    finally:
        os.close(ours)
        os.close(theirs)
    assert (ran.code == 0) == (name == "thread")


@both
async def test_escapes_that_happened_elsewhere_fail(name: Backend, there: Place) -> None:
    """A working folder chosen by a model is not a root, and a new namespace gives nothing back."""
    sandbox = there.sandbox(name)
    assert (await shell(sandbox, "echo x >file", cwd=there.outside)).code != 0
    for line in (
        f"unshare -r sh -c 'mount --bind {there.project} {there.outside} && echo x >{there.outside}/file'",
        f"unshare -rm mount -o remount,rw,bind / && echo x >{there.outside}/file",
        f"mount -o remount,rw / && echo x >{there.outside}/file",
        f"echo x >/proc/self/root{there.outside}/file",
        f"unshare -rm sh -c 'umount {there.home}/.ssh; cat {there.home}/.ssh/id'",
    ):
        ran = await shell(sandbox, line)
        assert "secret" not in ran.text
        assert (there.outside / "file").read_text() == "before"


@both
async def test_a_link_in_place_of_a_root_opens_nothing(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name)
    there.project.rmdir()
    there.project.symlink_to(there.outside)
    ran = await run(sandbox, "sh", "-c", f"echo x >{there.outside}/file", cwd=there.temporary)
    assert ran.code != 0
    assert (there.outside / "file").read_text() == "before"


# Opening changes nothing. Links of /dev lead to the command's own output.
OPEN_ALL = """
import itertools, os
def names(top):
    for folder, inner, files in os.walk(top):
        inner[:] = [name for name in inner if folder != "/proc" or not name.isdigit()]
        yield from (path for name in files if not os.path.islink(path := os.path.join(folder, name)))
for top in ("/proc", "/sys", "/dev", "/etc", "/boot"):
    for path in itertools.islice(names(top), 3000):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
        except OSError:
            continue
        print(path)
"""
DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx"}


@both
async def test_no_file_of_the_system_can_be_written_by_any_user(name: Backend, there: Place) -> None:
    """Root owns the settings of the kernel, so that it needs no capability to change them."""
    for network in (False, True):
        written = (await python(there.sandbox(name, network=network), OPEN_ALL)).text.split()
        assert {path for path in written if not path.startswith(("/dev/pts/", "/dev/shm/"))} <= {
            f"/dev/{device}" for device in DEVICES
        }


@both
async def test_no_user_namespace_is_made_inside(name: Backend, there: Place) -> None:
    """It gives capabilities: root could mount the control groups there, and end this program by them."""
    code = (
        "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); "
        "print(l.unshare(0x10000000), l.unshare(0x10020000), l.syscall(435, b'\\0' * 88, 88), "
        "l.syscall({'x86_64': 56, 'aarch64': 220}[os.uname().machine], 0x10000011, 0, 0, 0, 0))"
    )
    assert (await python(there.sandbox(name), code)).text == "-1 -1 -1 -1\n"
    assert (await shell(there.sandbox(name), "unshare -U true")).code != 0
