"""`read` shows images, PDF files and notebooks to models that can take them, and text or a sentence to the others."""

import base64
import json
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.builtin.tools.read_media import MOST_DOCUMENT_BYTES, MOST_IMAGE_BYTES, size_of
from dragoman.testing import ScriptedClient
from tests.builtin.tools.fixtures import FakeContext, with_editor

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 2, 3)
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + struct.pack(">HH", 7, 9) + b"\x03"
GIF = b"GIF89a" + struct.pack("<HH", 4, 5)
WEBP = b"RIFF\x10\0\0\0WEBPVP8 "
PDF = b"%PDF-1.4\n1 0 obj << /Type /Pages /Count 2 >> << /Type /Page >> << /Type /Page >>\n%%EOF"
SEES, BLIND, CHAT = "anthropic:claude-sonnet-4-5", "cerebras:gpt-oss-120b", "openai-chat:gpt-4o"


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    (tmp_path / "root").mkdir()
    return FakeContext(tmp_path / "root")


@pytest.mark.parametrize(
    ("data", "media_type"), [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")]
)
async def test_an_image_is_shown_by_its_content_whatever_its_name(
    context: FakeContext, data: bytes, media_type: str
) -> None:
    context.write("a.png", data)
    output = await context.call("read", path="a.png")
    assert output.images == ({"data": base64.b64encode(data).decode(), "media_type": media_type},)
    assert output.text == f"[a.png: {media_type[6:].upper()} image of {len(data)} bytes]"


async def test_a_model_that_does_not_see_gets_a_sentence(context: FakeContext) -> None:
    context.model_name = BLIND
    context.write("a.png", PNG)
    output = await context.call("read", path="a.png")
    assert output.images == ()
    assert "This model does not see images" in output.text


async def test_an_image_that_providers_refuse_is_refused_here(context: FakeContext) -> None:
    context.write("large.png", PNG + bytes(MOST_IMAGE_BYTES))
    assert f"more than the {MOST_IMAGE_BYTES}" in await context.refusal("read", path="large.png")
    context.write("fits.png", PNG + bytes(MOST_IMAGE_BYTES - len(PNG)))
    [image] = (await context.call("read", path="fits.png")).images
    assert len(image["data"]) <= 5 << 20
    context.write("wide.png", PNG[:16] + struct.pack(">II", 8001, 1))
    assert "has 8001 x 1 pixels" in await context.refusal("read", path="wide.png")
    assert "there is no file none.png" in await context.refusal("read", path="none.png")


def test_the_size_of_an_image_is_read_from_its_header() -> None:
    assert [size_of(data) for data in (PNG, JPEG, GIF, WEBP, b"\xff\xd8", b"")] == [
        (2, 3),
        (9, 7),
        (4, 5),
        None,
        None,
        None,
    ]


async def test_a_link_that_leads_out_is_not_followed_without_its_permission(
    context: FakeContext, tmp_path: Path
) -> None:
    (tmp_path / "secret.png").write_bytes(PNG)
    (context.folder / "a.png").symlink_to(tmp_path / "secret.png")
    [request] = context.requests("read", path="a.png")
    assert str(tmp_path / "secret.png") in request.paths
    context.memory.clear()
    assert "secret" not in await context.refusal("read", path="a.png")


async def test_images_are_read_from_the_disk_where_the_editor_has_the_texts(context: FakeContext) -> None:
    context.write("a.png", PNG)
    async with with_editor(context.folder, ScriptedClient(files={})) as inside:
        assert len((await inside.call("read", path="a.png")).images) == 1


# PDF


def install(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program `pdftotext` on the PATH."""
    folder.mkdir()
    program = folder / "pdftotext"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


async def test_a_model_that_reads_documents_gets_the_document(context: FakeContext) -> None:
    context.model_name = SEES
    path = context.write("a b.pdf", PDF)
    output = await context.call("read", path="a b.pdf")
    assert output.text == f"[a b.pdf: PDF document of {len(PDF)} bytes, 2 pages]"
    [document] = output.resources
    assert document["uri"] == f"file://{path.replace(' ', '%20')}"
    assert base64.b64decode(document["blob"]) == PDF


@pytest.mark.parametrize("model", ["scripted", BLIND, CHAT])
async def test_the_others_get_its_text(
    context: FakeContext, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "cat >/dev/null; printf 'one\\n\\ftwo\\n\\f'", monkeypatch)
    context.model_name = model
    context.write("a.pdf", PDF)
    assert await context.text("read", path="a.pdf") == "1\t[page 1]\n2\tone\n3\t[page 2]\n4\ttwo"
    assert (await context.text("read", path="a.pdf", line=4)).startswith("4\ttwo")


@pytest.mark.parametrize(
    "data", [PDF.replace(b"/Count 2", b"/Count 101"), PDF + bytes(MOST_DOCUMENT_BYTES), b"%PDF-1.7\n" + bytes(2 << 20)]
)
async def test_a_document_too_large_for_a_request_becomes_text(
    context: FakeContext, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "cat >/dev/null; echo text", monkeypatch)
    context.model_name = SEES
    context.write("a.pdf", data)
    assert await context.text("read", path="a.pdf") == "1\t[page 1]\n2\ttext"


async def test_what_cannot_be_made_text_is_explained(
    context: FakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.write("a.pdf", PDF)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "pdftotext is not installed here; ask the user" in await context.refusal("read", path="a.pdf")
    install(tmp_path / "bin", "cat >/dev/null; exit 3", monkeypatch)
    assert "cannot read a.pdf (exit code 3)" in await context.refusal("read", path="a.pdf")
    install(tmp_path / "images", "cat >/dev/null; printf '\\f\\f'", monkeypatch)
    assert "has 2 pages without text" in await context.refusal("read", path="a.pdf")


# Notebooks


def notebook(*cells: Mapping[str, object]) -> str:
    return json.dumps({"cells": list(cells), "nbformat": 4})


CELLS = notebook(
    {"cell_type": "markdown", "source": ["# Title\n", "text"]},
    {
        "cell_type": "code",
        "source": "1 + 1",
        "outputs": [
            {"output_type": "stream", "text": ["begun\n"]},
            {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
            {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode()}},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\u001b[31mE: v\u001b[0m"]},
        ],
    },
)


async def test_a_notebook_is_shown_as_its_cells_with_their_outputs(context: FakeContext) -> None:
    context.write("a.ipynb", CELLS)
    output = await context.call("read", path="a.ipynb")
    assert output.text == (
        "[cell 1, markdown]\n# Title\ntext\n[cell 2, code]\n1 + 1\n[output of cell 2]\nbegun\n\n2\n[image 1]\nE: v\n"
        "[2 cells of a notebook; give line to read the file itself, for example to edit it]"
    )
    assert [image["media_type"] for image in output.images] == ["image/png"]
    context.model_name = BLIND
    blind = await context.call("read", path="a.ipynb")
    assert blind.images == ()
    assert "its images are left out because this model does not see" in blind.text


async def test_the_file_of_a_notebook_can_be_read_to_edit_it(context: FakeContext) -> None:
    context.write("a.ipynb", CELLS)
    assert (await context.text("read", path="a.ipynb", line=1)).startswith('1\t{"cells"')


async def test_a_long_output_of_a_cell_is_cut(context: FakeContext) -> None:
    cell = {"cell_type": "code", "source": "x", "outputs": [{"output_type": "stream", "text": "y" * 20_000}]}
    context.write("a.ipynb", notebook(cell, {"cell_type": "code", "source": "after"}))
    text = await context.text("read", path="a.ipynb")
    assert "[9760 more bytes of this output]\n[cell 2, code]\nafter" in text


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 1}', "plain"])
async def test_what_is_not_a_notebook_is_read_as_text(context: FakeContext, text: str) -> None:
    context.write("a.ipynb", text)
    assert await context.text("read", path="a.ipynb") == f"1\t{text}"


async def test_odd_cells_do_no_harm(context: FakeContext) -> None:
    odd = notebook({"outputs": [1, {"data": {"image/png": "??"}}, {"text": 3}]}, {"source": 4, "cell_type": None})
    context.write("a.ipynb", odd)
    assert "an image (image/png) that cannot be shown" in await context.text("read", path="a.ipynb")
