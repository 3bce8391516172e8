"""Attempts to leave a sandbox, as a table, and the program that makes them all in one start of a sandbox.

An attempt is Python that runs inside, in a process of its own. It has escaped if it ends without an exception and
`got` is true. `passes` names the backends that do not stop it; docs/sandbox.md says the same in words. Nothing here
changes the machine if it succeeds: settings of the kernel are opened and not written, signals are number 0.

Run as `python -m tests.process.sandbox.escapes BACKEND FOLDER`; `none` makes those that are harmless without a sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BOTH = "bubblewrap thread"
LOGINS = (
    ".ssh/id .netrc .claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json .npmrc "
    ".cargo/credentials.toml .vault-token .bash_history .config/gh/hosts.yml .docker/config.json .kube/config .pgpass "
    ".mozilla/key4.db .local/share/keyrings/login .local/share/dragoman/x .aws/credentials"
)


class Escape(NamedTuple):
    name: str
    code: str
    passes: str = ""
    has_control: bool = True


def _group(passes: str, has_control: bool, **attempts: str) -> Iterator[Escape]:
    for name, code in attempts.items():
        yield Escape(name, code, passes, has_control)


ESCAPES = (
    # Files outside the folders; each attempt has a file `OUT/NAME` of its own.
    *_group(
        "",
        True,
        write="open(F, 'w').write('x')",
        append="open(F, 'a').write('x')",
        write_again="os.write(os.open(F, os.O_RDWR), b'x')",
        create="open(F + '-new', 'x')",
        create_unnamed="os.open(OUT, os.O_TMPFILE | os.O_RDWR)",
        remove="os.unlink(F)",
        rename="os.rename(F, F + '-moved')",
        move_in="os.rename(F, 'moved-in')",
        move_out="open('mine', 'w'); os.replace('mine', F)",
        hard_link="os.link(F, 'linked'); open('linked', 'w').write('x')",
        truncate="os.truncate(F, 0)",
        make_folder="os.mkdir(F + '-folder')",
        make_link="os.symlink('x', F + '-link')",
        make_pipe="os.mkfifo(F + '-pipe')",
        make_node="os.mknod(F + '-node')",
        by_own_link="os.symlink(OUT, 'way'); open('way/by_own_link', 'w').write('x')",
        by_root="open('/proc/self/root' + F, 'w').write('x')",
        by_parent="open('../outside/by_parent', 'w').write('x')",
        by_folder="os.chdir(OUT); open('by_folder', 'w').write('x')",
        by_descriptor="d = os.open(OUT, os.O_RDONLY); os.open('by_descriptor', os.O_WRONLY, dir_fd=d)",
        by_reopening="open(f'/proc/self/fd/{os.open(F, os.O_RDONLY)}', 'w').write('x')",
        by_child="subprocess.run(['sh', '-c', f'echo x >{F}'], check=True, stderr=-3)",
        shell_start="open(HOME + '/.bashrc', 'w').write('x')",
        allocate="os.posix_fallocate(os.open(F, os.O_WRONLY), 0, 100)",
    ),
    # Protected files.
    *_group(
        "thread",
        True,
        hook="open('.git/hooks/pre-commit', 'w').write('x')",
        git_config="open('.git/config', 'a').write('x')",
        instructions="open('AGENTS.md', 'w').write('x')",
        replace_instructions="open('n', 'w'); os.replace('n', 'AGENTS.md')",
        rename_editor="os.rename('.vscode', '.was')",
        rename_git="os.rename('.git', '.was-git')",
    ),
    Escape("new_protected", "open('.envrc', 'w').write('x')", BOTH),
    # What rules deny, in the folders.
    *_group(
        "thread",
        True,
        denied_read="got = 'canary' in open('denied.txt').read()",
        denied_link="os.link('denied.txt', 'd'); got = 'canary' in open('d').read()",
        denied_folder="got = os.listdir('locked')",
        read_only="open('kept.txt', 'a').write('x')",
        read_only_remove="os.unlink('kept2.txt')",
    ),
    *_group(
        "thread",
        True,
        mode="os.chmod(F, 0o600)",
        times="os.utime(F, (1, 1))",
        owner="os.chown(F, os.getuid(), os.getgid())",
        names_of_secrets="got = 'id' in os.listdir(HOME + '/.ssh')",
        size_of_a_secret="got = os.stat(HOME + '/.ssh/id').st_size",
        command_line="got = b'sleep' in open(f'/proc/{PID}/cmdline', 'rb').read()",
        shared_memory="os.open(SHM, os.O_WRONLY)",
    ),
    # Secrets.
    *(Escape(f"read {name}", f"got = 'canary' in open(HOME + '/{name}').read()") for name in LOGINS.split()),
    *_group(
        "",
        True,
        secret_by_link="os.symlink(HOME + '/.ssh', 's'); got = 'canary' in open('s/id').read()",
        secret_by_root="got = 'canary' in open('/proc/self/root' + HOME + '/.ssh/id').read()",
        secret_by_hard_link="os.link(HOME + '/.netrc', 'n2'); got = 'canary' in open('n2').read()",
        secret_by_rename="os.rename(HOME + '/.ssh', 'keys'); got = 'canary' in open('keys/id').read()",
    ),
    Escape("passwords", "got = open('/etc/shadow').read()", has_control=False),
    # The network and sockets.
    *_group(
        "",
        True,
        tcp="socket.create_connection(('127.0.0.1', PORT), 1)",
        tcp_mapped="s = socket.socket(10, 1); s.settimeout(1); s.connect(('::ffff:127.0.0.1', PORT))",
        udp="s = socket.socket(2, 2); s.settimeout(1); s.connect(('127.0.0.1', UDP)); s.send(b'x'); got = s.recv(9)",
        socket_in_tmp="socket.socket(1).connect(TMP + '/socket')",
        abstract_socket="socket.socket(1).connect('\\0' + NAME)",
    ),
    Escape("mptcp", "s = socket.socket(2, 1, 262); s.settimeout(1); s.connect(('127.0.0.1', PORT))", "", False),
    Escape("socket_elsewhere", "socket.socket(1).connect(OUT + '/socket')", "bubblewrap"),
    *_group(
        "",
        False,
        packets="socket.socket(17, 3, 0)",
        virtual_machine="socket.socket(40, 1)",
        raw="socket.socket(2, 3, 1)",
    ),
    # Other processes.
    *_group(
        "",
        True,
        signal="os.kill(PID, 0)",
        signal_by_descriptor="import signal; signal.pidfd_send_signal(os.pidfd_open(PID), 0)",
        environment="got = b'canary' in open(f'/proc/{PID}/environ', 'rb').read()",
        memory="got = open(f'/proc/{PID}/mem', 'rb')",
        working_folder="got = os.readlink(f'/proc/{PID}/cwd')",
        root_of_another="got = os.listdir(f'/proc/{PID}/root/')",
        descriptors="got = os.readlink(f'/proc/{PID}/fd/0')",
    ),
    *_group(
        "",
        False,
        trace="got = libc.ptrace(0x4206, PID, 0, 0) == 0",  # PTRACE_SEIZE
        namespaces="got = libc.setns(os.open(f'/proc/{PID}/ns/mnt', os.O_RDONLY), 0) == 0",
    ),
    # Settings of the kernel: opened, never written.
    *(
        Escape(f"open {path}", f"os.open('{path}', os.O_WRONLY)", "", False)
        for path in (
            *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness"),
            *("/proc/sys/kernel/modprobe", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger"),
            *("/proc/irq/default_smp_affinity", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state"),
            *(
                "/sys/fs/cgroup/cgroup.procs",
                "/dev/kmsg",
                "/dev/mem",
                "/proc/kcore",
                "/proc/sys/fs/binfmt_misc/register",
            ),
            *("/etc/passwd", "/etc/ld.so.preload", "/proc/1/mem", "/dev/sda", "/dev/vda"),
        )
    ),
    # Namespaces, mounts and rights.
    *_group(
        "",
        False,
        mount="got = libc.mount(b'x', TMPDIR.encode(), b'tmpfs', 0, None) == 0",
        remount="got = libc.mount(b'x', b'/', b'x', 0x1020, None) == 0",
        unmount="got = libc.umount2((HOME + '/.ssh').encode(), 2) == 0",
        user_namespace="got = libc.unshare(0x10000000) == 0",
        mount_namespace="got = libc.unshare(0x20000) == 0",
        all_namespaces="got = libc.unshare(0x7E020000) == 0",
        clone_user="r = libc.syscall(CLONE, 0x10000011, 0, 0, 0, 0); r == 0 and os._exit(0); got = r > 0",
        clone3_user="got = libc.syscall(435, struct.pack('=11Q', 1 << 28, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88) > 0",
        change_root="os.chroot(TMPDIR)",
        device="os.mknod('disk', 0o60600, os.makedev(8, 0))",
        capabilities="got = int(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 16)",
        bounding="got = not int(open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0])",
        set_user="os.setuid(12345)",
        mount_of_groups="libc.unshare(0x12020000); got = libc.mount(b'x', TMPDIR.encode(), b'cgroup2', 0, 0) == 0",
        host_name="got = libc.sethostname(os.uname().nodename.encode(), len(os.uname().nodename)) == 0",
        module="libc.syscall({'x86_64': 175, 'aarch64': 105}[M], b'', 0, b''); got = ctypes.get_errno() not in (1, 38)",
        io_uring="got = libc.syscall(425, 8, bytes(120)) >= 0",
        keyring="got = libc.syscall({'x86_64': 250, 'aarch64': 219}[M], 0, -3, 0) >= 0",
        bpf="got = libc.syscall({'x86_64': 321, 'aarch64': 280}[M], 0, bytes(120), 120) >= 0",
        performance="got = libc.syscall({'x86_64': 298, 'aarch64': 241}[M], bytes(120), 0, -1, -1, 0) >= 0",
        page_faults="got = libc.syscall({'x86_64': 323, 'aarch64': 282}[M], 1) >= 0",
        handles="libc.syscall({'x86_64': 304, 'aarch64': 265}[M], 3, bytes(120), 0); got = ctypes.get_errno() != 1",
        typing="m, s = os.openpty(); got = libc.ioctl(s, 0x5412, b'x') == 0",
        extra_descriptors="got = [n for n in os.listdir('/proc/self/fd') if int(n) > 2 and "
        "os.path.exists(f'/proc/self/fd/{n}') and not os.readlink(f'/proc/self/fd/{n}').startswith('/proc')]",
        keys_in_variables="got = os.environ.get('A_TOKEN') or os.environ.get('SSH_AUTH_SOCK')",
    ),
)

_INSIDE = """
import ctypes, json, os, signal, socket, struct, subprocess, sys
given = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
M = os.uname().machine
base = {**given["values"], "ctypes": ctypes, "libc": libc, "M": M, "os": os, "socket": socket, "struct": struct,
    "subprocess": subprocess, "CLONE": {"x86_64": 56, "aarch64": 220}[M], "TMPDIR": os.environ.get("TMPDIR", "/tmp")}
for number, (name, code) in enumerate(given["attempts"]):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        try:
            values = {**base, "got": True, "F": base["OUT"] + "/" + name.replace(" ", "-").replace("/", "-")}
            exec(code, values)
            os._exit(7 if values["got"] else 8)
        except BaseException as error:
            os._exit(8)
    status = os.waitpid(pid, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7:
        print(name)
print("end")
"""


def prepare(base: Path) -> None:
    """Make the folders and files of all attempts."""
    for name in ("home", "project", "outside", "temporary", "project/.git/hooks", "project/.vscode", "project/locked"):
        (base / name).mkdir(parents=True)
    for escape in ESCAPES:
        (base / "outside" / escape.name.replace(" ", "-").replace("/", "-")).write_text("before")
    for name in LOGINS.split():
        (base / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (base / "home" / name).write_text("canary")
    for name in (".git/hooks/pre-commit", ".git/config", "AGENTS.md", ".vscode/x", "kept.txt", "kept2.txt", "locked/x"):
        (base / "project" / name).write_text("before")
    (base / "project" / "denied.txt").write_text("canary")


@contextlib.contextmanager
def _services(base: Path) -> Iterator[dict[str, Any]]:
    """Servers, a process and shared memory outside; what attempts need to know of them."""
    import tempfile

    with contextlib.ExitStack() as stack:
        private = stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))
        name = f"dragoman-escape-{os.getpid()}"
        places = {"OUT": str(base / "outside"), "HOME": str(base / "home"), "TMP": private, "NAME": name}
        for address in (f"{private}/socket", f"{places['OUT']}/socket", f"\0{name}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        threading.Thread(target=_echo, args=(udp,), daemon=True).start()
        environment = {**os.environ, "PLACE": "canary"}
        sleeper = stack.enter_context(subprocess.Popen(["sleep", "1000"], env=environment, stdin=subprocess.DEVNULL))
        stack.callback(sleeper.kill)
        memory = f"/dev/shm/{name}"
        Path(memory).write_text("")
        stack.callback(os.unlink, memory)
        yield {**places, "PID": sleeper.pid, "PORT": tcp.getsockname()[1], "UDP": udp.getsockname()[1], "SHM": memory}


def _echo(udp: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            data, sender = udp.recvfrom(10)
            udp.sendto(data, sender)


def attempt(name: str, base: Path) -> list[str]:
    """Make all attempts in one sandboxed process; the names of those that escaped, in order."""
    from dragoman.process.sandbox import Sandbox, make_policy
    from dragoman.process.sandbox.denied import DeniedPaths
    from dragoman.process.sandbox.sandbox import Backend

    project = base / "project"
    attempts = [(each.name, each.code) for each in ESCAPES if name != "none" or each.has_control]
    python = next(path for path in ("/usr/bin/python3", os.path.realpath(sys.executable)) if os.access(path, os.X_OK))
    environment = {**os.environ, "A_TOKEN": "canary", "SSH_AUTH_SOCK": "/x"}
    with _services(base) as values:
        argv = [python, "-I", "-c", _INSIDE, json.dumps({"values": values, "attempts": attempts})]
        if name == "none":
            done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
            return done.stdout.splitlines()
        backend: Backend = "bubblewrap" if name == "bubblewrap" else "thread"
        policy = make_policy([project], temporary=base / "temporary", home=base / "home")
        closed = DeniedPaths(
            (str(project / "denied.txt"), str(project / "locked")),
            (str(project / "kept.txt"), str(project / "kept2.txt")),
        )
        confined = Sandbox(closed.close(policy), backend).confine(argv, cwd=str(project), env=environment)
        started = confined.starter.start(
            lambda kept: subprocess.Popen(
                confined.argv,
                cwd=confined.cwd,
                env=confined.env,
                pass_fds=tuple(kept),
                text=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        out, _ = started.communicate(timeout=60)
        return out.decode(errors="replace").splitlines()


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"uid": os.geteuid(), "escaped": attempt(sys.argv[1], Path(sys.argv[2]))}))
