"""What a prompt is made of: its text, the files it mentions, the images attached to it."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path

import pytest

from dragoman.cli.exec.options import Options
from dragoman.cli.exec.prompt import EMBEDDED_BYTES, blocks, read_prompt
from dragoman.cli.exits import CliError
from dragoman.schema import v1
from dragoman.testing.memory import PIXEL

EVERYTHING = v1.PromptCapabilities(image=True, audio=True, embedded_context=True)
NOTHING = v1.PromptCapabilities()
PNG = base64.b64decode(PIXEL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text("print('hi')\n")
    (folder / "with space.txt").write_text("spaced\n")
    (folder / "picture.png").write_bytes(PNG)
    (folder / "data.bin").write_bytes(b"\0\1\2")
    (folder / "src").mkdir()
    (tmp_path / "secret.txt").write_text("swordfish\n")
    return folder


def made(project: Path, text: str, accepted: v1.PromptCapabilities | None = EVERYTHING, **more: object) -> list[object]:
    return list(blocks(read_prompt(Options(prompt=text, cwd=str(project), **more)), accepted))  # type: ignore[arg-type]


def from_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes, *, is_terminal: bool = False) -> None:
    stream = io.TextIOWrapper(io.BytesIO(data))
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("sys.stdin", stream)


def test_a_plain_prompt_is_one_text(project: Path) -> None:
    assert made(project, "hello") == [v1.TextContent("hello")]


@pytest.mark.parametrize("prompt", ["-", None])
def test_without_an_argument_or_with_a_dash_the_prompt_comes_from_stdin(
    prompt: str | None, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_stdin(monkeypatch, "Grüße\n".encode())
    assert read_prompt(Options(prompt=prompt, cwd=str(project))).text == "Grüße\n"


@pytest.mark.parametrize("prompt", ["-", None])
def test_a_terminal_is_not_read(prompt: str | None, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_stdin(monkeypatch, b"typed", is_terminal=True)
    with pytest.raises(CliError, match="no prompt"):
        read_prompt(Options(prompt=prompt, cwd=str(project)))


def test_a_closed_stdin_is_refused_as_a_prompt(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(CliError, match="no prompt"):
        read_prompt(Options(cwd=str(project)))


def test_an_empty_prompt_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_stdin(monkeypatch, b" \n")
    with pytest.raises(CliError, match="the prompt is empty"):
        read_prompt(Options(cwd=str(project)))


def test_stdin_that_is_not_utf8_is_refused_with_the_position(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_stdin(monkeypatch, b"ab\xff")
    with pytest.raises(CliError, match=r"stdin: not UTF-8 text \(byte 2\)"):
        read_prompt(Options(cwd=str(project)))


def test_the_prompt_can_be_a_file(project: Path) -> None:
    prompt = read_prompt(Options(prompt_file=str(project / "main.py"), cwd=str(project)))
    assert prompt.text == "print('hi')\n"


def test_a_prompt_given_twice_is_refused(project: Path) -> None:
    with pytest.raises(CliError, match="given twice"):
        read_prompt(Options(prompt="x", prompt_file=str(project / "main.py"), cwd=str(project)))


def test_a_missing_file_is_named(project: Path) -> None:
    with pytest.raises(CliError, match=r"--file nope.txt: No such file"):
        read_prompt(Options(prompt_file="nope.txt", cwd=str(project)))


def test_a_mentioned_file_goes_along_as_a_resource(project: Path) -> None:
    text, resource = made(project, "Explain @main.py, please")
    assert text == v1.TextContent("Explain @main.py, please")
    assert isinstance(resource, v1.EmbeddedResource)
    assert resource.resource == v1.TextResourceContents(
        "print('hi')\n", (project / "main.py").as_uri(), mime_type="text/x-python"
    )


def test_an_agent_without_embedded_context_gets_a_link(project: Path) -> None:
    _, link = made(project, "Explain @main.py", NOTHING)
    assert link == v1.ResourceLink("main.py", (project / "main.py").as_uri(), mime_type="text/x-python")
    assert made(project, "Explain @main.py", None)[1] == link


def test_a_quoted_mention_may_have_spaces(project: Path) -> None:
    _, resource = made(project, 'Explain @"with space.txt".')
    assert isinstance(resource, v1.EmbeddedResource)
    assert resource.resource.uri == (project / "with space.txt").as_uri()


@pytest.mark.parametrize("name", ["src", "data.bin"])
def test_a_folder_and_a_binary_file_are_linked(name: str, project: Path) -> None:
    _, link = made(project, f"Look at @{name}")
    assert isinstance(link, v1.ResourceLink)
    assert link.name == name


def test_a_large_file_is_linked(project: Path) -> None:
    (project / "log").write_text("x" * (EMBEDDED_BYTES + 1))
    assert isinstance(made(project, "Look at @log")[1], v1.ResourceLink)


def test_a_fifo_is_linked_and_not_waited_for(project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert isinstance(made(project, "Look at @pipe")[1], v1.ResourceLink)


@pytest.mark.parametrize("text", ["ask @nobody", "mail me@main.py", "@", '@""', "@\n", "@property of @main.p"])
def test_a_mention_that_does_not_name_a_file_stays_text(text: str, project: Path) -> None:
    assert made(project, text) == [v1.TextContent(text)]


def test_a_file_mentioned_twice_goes_along_once(project: Path) -> None:
    assert len(made(project, "@main.py and @./main.py")) == 2


@pytest.mark.parametrize("name", ["../secret.txt", "link", "{outside}"])
def test_a_mention_never_reaches_outside_the_folders(name: str, project: Path, tmp_path: Path) -> None:
    (project / "link").symlink_to(tmp_path / "secret.txt")
    name = name.format(outside=tmp_path / "secret.txt")
    prompt = read_prompt(Options(prompt=f"Explain @{name}", cwd=str(project)))
    assert prompt.outside == (name,)
    assert blocks(prompt, EVERYTHING) == [v1.TextContent(f"Explain @{name}")]


def test_a_mention_reaches_into_an_added_folder(project: Path, tmp_path: Path) -> None:
    _, resource = made(project, "Explain @../secret.txt", directories=(str(tmp_path),))
    assert isinstance(resource, v1.EmbeddedResource)


@pytest.mark.convention("image", "exec")
def test_a_mentioned_image_is_sent_as_an_image_if_the_agent_accepts_images(project: Path) -> None:
    _, image = made(project, "What is @picture.png")
    assert image == v1.ImageContent(PIXEL, "image/png", uri=(project / "picture.png").as_uri())
    _, link = made(project, "What is @picture.png", NOTHING)
    assert isinstance(link, v1.ResourceLink)


@pytest.mark.convention("image", "exec")
def test_an_attached_image_is_sent_as_an_image(project: Path) -> None:
    _, image = made(project, "What is this?", images=(str(project / "picture.png"),))
    assert image == v1.ImageContent(PIXEL, "image/png")


def test_an_attached_image_that_the_agent_does_not_accept_is_an_error(project: Path) -> None:
    with pytest.raises(CliError, match="this agent does not accept images"):
        made(project, "What is this?", NOTHING, images=(str(project / "picture.png"),))


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (PNG, "image/png"),
    ],
)
def test_an_image_is_known_by_its_first_bytes(data: bytes, mime_type: str, project: Path) -> None:
    (project / "image").write_bytes(data)
    [_, image] = made(project, "x", images=(str(project / "image"),))
    assert isinstance(image, v1.ImageContent)
    assert image.mime_type == mime_type


def test_a_file_that_is_not_an_image_is_refused(project: Path) -> None:
    with pytest.raises(CliError, match="not a PNG"):
        made(project, "x", images=(str(project / "main.py"),))
