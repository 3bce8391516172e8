"""The input without a screen: completion, history, drafts, attachments, the clipboard, commands of the user."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.tui import clipboard, history
from dragoman.tui.attachments import (
    Chip,
    build,
    chip_before,
    clean_paste,
    image_path,
    is_long_paste,
    listed,
    output_chip,
    paste_chip,
    written_out,
)
from dragoman.tui.clipboard import copy, copy_commands, osc52, paste_image
from dragoman.tui.completion import (
    AgentCommand,
    ClientCommand,
    command_suggestions,
    file_suggestions,
    mentions,
    word_at,
)
from dragoman.tui.drafts import Draft, DraftFolder
from dragoman.tui.external import editor_command, pager_command
from dragoman.tui.history import PromptHistory
from dragoman.tui.shell_command import ShellCommand
from dragoman.tui.values import AgentInput
from dragoman.workspace.file_index import list_files, match_score

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
ALL = AgentInput(image=True, embedded=True)


def _read(path: str, encoding: str = "utf-8") -> str:
    with open(path, encoding=encoding, newline="") as file:
        return file.read()


def _mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


# Completion


@pytest.mark.parametrize(
    ("text", "cursor", "found"),
    [
        ("/", 1, ("command", "", 0, 1)),
        ("/he", 3, ("command", "he", 0, 3)),
        ("/help", 3, ("command", "he", 0, 5)),
        ("/help me", 6, None),
        ("say /he", 7, None),
        (" /he", 4, None),
        ("", 0, None),
        ("@", 1, ("file", "", 0, 1)),
        ("see @src/a", 10, ("file", "src/a", 4, 10)),
        ("see (@a", 7, ("file", "a", 5, 7)),
        ("me@example.org", 14, None),
        ("see @a b", 8, None),
        ("one\n@a", 6, ("file", "a", 4, 6)),
        ('@"a b', 5, ("file", "a b", 0, 5)),
        ('@"a b"', 6, None),
        ("/run @a", 7, ("file", "a", 5, 7)),
    ],
)
def test_which_word_a_menu_completes(text: str, cursor: int, found: tuple[object, ...] | None) -> None:
    word = word_at(text, cursor)
    assert (word if word is None else tuple(word)) == found


def test_mentions_are_paths_at_the_start_of_a_word() -> None:
    assert mentions('@a.txt and (@b/c.py) @"d e" me@x.org @a.txt @') == ["a.txt", "b/c.py)", "d e"]


def test_the_command_of_the_agent_wins_and_ours_keeps_a_name_of_its_own() -> None:
    theirs = [AgentCommand("help", "of the \x1b[31magent", "WORDS"), AgentCommand("review", "x")]
    rows = command_suggestions("help", theirs, [ClientCommand("help", "keys"), ClientCommand("queue", "q")], "claude")
    assert [(row.inserted, row.source) for row in rows] == [("/help ", "claude"), ("/dragoman:help ", "client")]
    assert rows[0].detail.endswith("agent · WORDS")
    assert all(row.detail.isprintable() for row in rows)


def test_names_match_by_their_letters_in_order_and_the_nearest_is_first() -> None:
    paths = ["docs/terminal.md", "src/tui/input.py", "tests/tui/", "src/text/terminal.py"]
    rows = [row.inserted for row in file_suggestions("term", paths)]
    assert rows == ["@docs/terminal.md ", "@src/text/terminal.py "]
    assert file_suggestions("tui", paths)[0].inserted == "@tests/tui/", "a folder goes on"
    assert [row.inserted for row in file_suggestions("stp", paths)] != []
    assert file_suggestions("xyz", paths) == []
    assert match_score("Term", "terminal.py") is None, "a large letter matches itself only"
    assert file_suggestions("b", ["a b.txt"])[0].inserted == '@"a b.txt" '


def test_the_best_name_is_found_among_many_and_no_query_takes_long() -> None:
    many = [f"s{number:05}/x/e/t/t/i.txt" for number in range(7_000)]
    paths = [*many, "deep/below/settings.py", *(f"aa{number}" for number in range(7_000))]
    assert file_suggestions("setti", paths)[0].shown == "deep/below/settings.py"
    assert len(file_suggestions("sxi", paths)) == 50
    assert file_suggestions("a" * 60 + "b", ["a" * 150] * 50) == []  # every way to match would take forever


def test_files_of_a_project_are_listed_without_what_git_ignores(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "sub/deep/c.py", "build/out.o", ".hidden", "sub/x.log", "sub/keep.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "sub" / ".gitignore").write_text("!keep.log\n")
    (tmp_path / "evil\x1b[2J").write_text("")
    found, is_cut = list_files(str(tmp_path))
    assert found == ["a.py", "sub/", "sub/b.py", "sub/deep/", "sub/keep.log", "sub/deep/c.py"]
    assert not is_cut
    assert list_files(str(tmp_path), most=2) == (["a.py", "sub/"], True)
    assert list_files(str(tmp_path), seconds=-1.0) == ([], True)
    assert list_files(str(tmp_path), lambda: True) == ([], True)


# History


def test_history_is_kept_for_its_folder_and_for_its_owner(tmp_path: Path, own_home: Path) -> None:
    one, other = PromptHistory(str(tmp_path)), PromptHistory(str(tmp_path / ".."))
    one.add("first\nof two lines")
    one.add("second")
    one.add("second")
    other.add("elsewhere")
    files = list((own_home / "state" / "history").glob("*.jsonl"))
    assert len(files) == 2
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    again = PromptHistory(str(tmp_path))
    assert list(again.entries) == ["first\nof two lines", "second"]
    assert again.older("a draft") == "second"
    assert again.older("second") == "first\nof two lines"
    assert again.older("first\nof two lines") is None
    assert again.newer() == "second"
    assert again.newer() == "a draft"
    assert again.newer() is None
    assert again.find("FIRST") == (0, "first\nof two lines")
    assert again.find("s", 1) == (0, "first\nof two lines")
    assert again.find("nothing") is None


def test_history_of_several_clients_at_once_loses_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from dragoman.tui.history import PromptHistory; h = PromptHistory(sys.argv[1])\n"
        "for n in range(100): h.add(f'{sys.argv[2]} {n} ' + 'x' * 5000)"
    )
    working = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("a", "b")]
    assert [each.wait(60) for each in working] == [0, 0]
    entries = PromptHistory(str(tmp_path)).entries
    assert len(entries) == 200
    for name in ("a", "b"):
        mine = [int(entry.split()[1]) for entry in entries if entry.startswith(name)]
        assert mine == list(range(100))


def test_history_is_bounded_and_survives_a_broken_line(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_SHORTEN_BYTES", 2000)
    kept = PromptHistory(str(tmp_path))
    for number in range(100):
        kept.add(f"entry {number} {'x' * 40}")
    kept.add("y" * 30_000)
    (file,) = (own_home / "state" / "history").glob("*.jsonl")
    assert file.stat().st_size < 4000
    with file.open("a") as opened:
        opened.write('"cut off by a ki')
    kept.add("the last")
    entries = PromptHistory(str(tmp_path)).entries
    assert entries[-1] == "the last"
    assert entries[-2].startswith("entry 99")


def test_a_disk_that_cannot_be_written_costs_the_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "file"))
    kept = PromptHistory(str(tmp_path))
    kept.add("a")
    assert list(kept.entries) == ["a"]
    assert "not kept" in kept.problem


# Drafts


def test_a_draft_belongs_to_its_session_and_one_that_was_left_is_taken_once(tmp_path: Path, own_home: Path) -> None:
    drafts, dead = DraftFolder(str(tmp_path)), _dead_pid()
    chips = [Chip("[pasted 2 lines]", "text", "a\nb")]
    drafts.save("s1", Draft("mine", chips, os.getpid(), True, 9e9))
    drafts.save("s2", Draft("of another client that lives", [], os.getppid(), True, 9e9))
    drafts.save("s3", Draft("put aside", [], dead, False, 9e9))
    assert drafts.load("s1") == Draft("mine", chips, os.getpid(), True, 9e9)
    assert drafts.load("s2") is None
    assert drafts.load("s3") == Draft("put aside", [], dead, False, 9e9)
    drafts.save("s1", Draft(""))
    assert drafts.load("s1") is None
    assert drafts.take_left() is None, "neither of a client that lives nor one that was put aside"
    drafts.save(None, Draft("left", [], dead, True, 9e9))
    found = drafts.take_left()
    assert found is not None
    assert found.text == "left"
    assert drafts.take_left() is None
    for file in (own_home / "state" / "drafts").rglob("*.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def _dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


# Attachments


def test_pasted_text_is_harmless_and_long_ones_become_chips() -> None:
    assert clean_paste("a\r\nb\rc\x0bd\x1b[31m\x1b]0;x\x07\u202e\x9b1m\te") == "a\nb\nc\nd\te"
    assert not is_long_paste("x\n" * 19)
    assert is_long_paste("x\n" * 20)
    assert not is_long_paste("x" * 2000)
    assert is_long_paste("x" * 2001)
    chips: dict[str, Chip] = {}
    for _ in range(2):
        chip = paste_chip("line\n" * 10_000, chips)
        chips[chip.word] = chip
    assert list(chips) == ["[pasted 10,000 lines]", "[pasted 10,000 lines #2]"]
    assert paste_chip("x" * 3000, {}).word == "[pasted 3,000 characters]"
    text = "see [pasted 10,000 lines #2] now"
    assert chip_before(text, 28, chips) == chips["[pasted 10,000 lines #2]"]
    assert chip_before(text, 27, chips) is None
    assert written_out(text, chips, 10) == "see [pasted 10,000 lines #2, not kept] now"
    assert written_out("[x]", {"[x]": Chip("[x]", "text", "short\n")}, 10) == "short"


def test_a_mentioned_file_is_embedded_linked_or_an_image_as_the_agent_takes_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "big.txt").write_text("x" * 40_000)
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "logo.png").write_bytes(PNG)
    (tmp_path / "fake.png").write_text("no image")
    os.mkfifo(tmp_path / "pipe")
    text = 'see @a.txt, @big.txt @data.bin @"sub dir/" @logo.png @fake.png @missing @pipe.'
    made = build(text, str(tmp_path), {}, ALL)
    uri = f"file://{tmp_path}"
    assert made.blocks == [
        v1.EmbeddedResource(v1.TextResourceContents("hello", f"{uri}/a.txt", "text/plain")),
        v1.ResourceLink("big.txt", f"{uri}/big.txt", size=40_000),
        v1.ResourceLink("data.bin", f"{uri}/data.bin", size=2),
        v1.ResourceLink("sub dir", f"{uri}/sub%20dir"),
        v1.ImageContent(base64.b64encode(PNG).decode(), "image/png", uri=f"{uri}/logo.png"),
        v1.ResourceLink("pipe", f"{uri}/pipe", size=0),
    ]
    assert [note.split(" is ")[0] for note in made.notes] == ["fake.png"]
    plainly = build("@a.txt @logo.png", str(tmp_path), {}, AgentInput())
    assert [type(block) for block in plainly.blocks] == [v1.ResourceLink, v1.ResourceLink]
    assert plainly.notes == ["logo.png is sent as a link: the agent does not take images"]
    rows = listed(text, str(tmp_path), {}, ALL)
    assert rows[0] == ("a.txt", "5 bytes")
    assert ("logo.png", "image, 108 bytes") in rows


def test_chips_are_sent_while_their_word_is_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "clip.png").write_bytes(PNG)
    image = Chip("[image, 1 kB]", "image", path=str(tmp_path / "clip.png"))
    shell = output_chip("ls [x]", "a\x1b[31m\nb", "exit 0", {})
    assert shell.word == "[!ls (x): exit 0]"
    chips = {image.word: image, shell.word: shell}
    assert build("nothing", "/", chips, ALL).blocks == []
    made = build(f"{shell.word} {image.word}", "/", chips, ALL).blocks
    assert isinstance(made[0], v1.EmbeddedResource)
    assert isinstance(made[0].resource, v1.TextResourceContents)
    assert made[0].resource.text == "$ ls [x]\na\nb\n(exit 0)\n"
    assert isinstance(made[1], v1.ImageContent)
    assert build(image.word, "/", chips, AgentInput()).notes == [
        "[image, 1 kB] is not sent: the agent does not take images"
    ]


def test_the_pasted_path_of_an_image_is_a_mention(tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(PNG)
    (tmp_path / "c.txt").write_text("")
    for pasted in ("a b.png", "'a b.png'", "a\\ b.png", f"file://{tmp_path}/a%20b.png", f"{tmp_path}/a b.png\n"):
        assert image_path(pasted, str(tmp_path)) == '@"a b.png"'
    for pasted in ("c.txt", "no.png", "a b.png\nand more", "", "it's a b.png", "x" * 5000):
        assert image_path(pasted, str(tmp_path)) is None
    assert image_path("a b.png", "/") is None


# Clipboard


def test_a_copied_text_is_asked_of_the_terminal_wrapped_for_tmux_and_refused_when_too_long() -> None:
    assert osc52("hi ü", {}) == f"\x1b]52;c;{base64.b64encode('hi ü'.encode()).decode()}\x07"
    assert osc52("hi", {"TMUX": "x"}) == "\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"
    assert osc52("x" * (74 << 10), {}) is not None
    assert osc52("x" * ((74 << 10) + 1), {}) is None


def _programs(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).write_text(f'#!/bin/sh\n/bin/cat > "{folder}/{name}.got"\n')
        (folder / name).chmod(0o755)
    return str(folder)


async def test_a_copy_goes_to_tmux_a_local_program_and_a_file(tmp_path: Path, own_home: Path) -> None:
    path = _programs(tmp_path, "tmux", "wl-copy", "xclip")
    env = {"PATH": path, "TMUX": "x", "WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}
    assert [command[0] for command in copy_commands(env)] == ["tmux", "wl-copy"]
    assert [command[0] for command in copy_commands({**env, "SSH_TTY": "/dev/pts/1"})] == ["tmux"]
    written: list[str] = []
    copied = await copy("text\nü", env, written.append)
    assert copied.ways == ("terminal", "tmux", "wl-copy")
    assert (tmp_path / "tmux.got").read_text() == (tmp_path / "wl-copy.got").read_text() == "text\nü"
    assert _read(copied.file) == "text\nü"
    assert _mode(copied.file) == 0o600
    assert written[0].startswith("\x1bPtmux;")
    long = await copy("x" * 100_000, {"PATH": ""}, written.append)
    assert long.ways == ()
    assert len(_read(long.file)) == 100_000
    for _ in range(25):
        await copy("x", {"PATH": ""}, written.append)
    assert len(list((own_home / "state" / "copied").iterdir())) == 20


async def test_an_image_comes_from_the_local_clipboard_only(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(PNG)
    program = tmp_path / "wl-paste"
    program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/image\n")
    program.chmod(0o755)
    env = {"PATH": str(tmp_path), "WAYLAND_DISPLAY": "w"}
    found = await paste_image(env)
    assert not isinstance(found, str)
    assert _read(found[0], "latin-1") == PNG.decode("latin-1")
    assert found[1] == len(PNG)
    (tmp_path / "image").write_text("text")
    assert "no image" in str(await paste_image(env))
    assert "over SSH" in str(await paste_image({**env, "SSH_CONNECTION": "1"}))
    assert "install" in str(await paste_image({"PATH": ""}))


async def test_a_program_that_hangs_does_not_hold_a_copy_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "_SECONDS", 0.2)
    program = tmp_path / "pbcopy"
    program.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    program.chmod(0o755)
    async with asyncio.timeout(20):
        assert (await copy("x" * 1_000_000, {"PATH": str(tmp_path)}, lambda _: None)).ways == ()


# Programs of the user


def test_which_editor_and_pager(tmp_path: Path) -> None:
    path = _programs(tmp_path, "mine", "less", "vi")
    assert editor_command({"PATH": path, "VISUAL": "mine -w", "EDITOR": "vi"}) == ["mine", "-w"]
    assert editor_command({"PATH": path, "VISUAL": "gone", "EDITOR": "'broken"}) == ["vi"]
    assert pager_command({"PATH": path}) == ["less", "-R"]
    assert pager_command({"PATH": path, "PAGER": "less -S"}) == ["less", "-S", "-R"]
    assert pager_command({"PATH": path, "PAGER": "mine"}) == ["mine"]
    for find in (editor_command, pager_command):
        with pytest.raises(ConfigError, match="was found"):
            find({"PATH": str(tmp_path / "empty")})


async def test_a_shell_command_keeps_colours_and_says_how_it_ended(tmp_path: Path) -> None:
    command = ShellCommand("printf '\\033[31mred\\033[0m\\033]0;title\\007\\n'; pwd; exit 3", lambda: None)
    await command.run(str(tmp_path), 80)
    assert command.ending == "exit 3"
    assert "\x1b[31mred\x1b[0m" in command.lines[0]
    assert "title" not in "".join(command.lines)
    assert command.output == f"red\n{tmp_path}"


async def test_a_shell_command_is_stopped_with_what_it_started_and_its_output_is_bounded(tmp_path: Path) -> None:
    started = asyncio.Event()
    command = ShellCommand("seq 20000; sleep 300 & echo started; wait", started.set)
    running = asyncio.ensure_future(command.run(str(tmp_path), 80))
    async with asyncio.timeout(30):
        while not command.lines or command.lines[-1] != "started":
            started.clear()
            await started.wait()
        command.stop()
        await running
    assert command.ending == "stopped"
    assert command.is_cut
    assert len(command.lines) == 5000
    assert command.output.startswith("… the beginning is not kept\n15002\n")


async def test_a_shell_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    command = ShellCommand("true", lambda: None)
    await command.run(str(tmp_path / "missing"), 80)
    assert command.ending.startswith("not started: ")
