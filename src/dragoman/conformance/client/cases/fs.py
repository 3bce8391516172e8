"""Files, for clients that offer them: what is read is what is there, and lines are counted from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.case import CaseNeeds, Fail, Inconclusive, case

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

_READ = "fs/read_text_file"
_WRITE = "fs/write_text_file"
_LINES = "one\ntwo\nthree\nfour\n"
_NOT_FOUND = -32002


async def _folder(probe: ClientProbe) -> Path:
    """Make a folder below the session's cwd."""
    await probe.prompted()
    return probe.scratch()


async def _read(probe: ClientProbe, path: Path, **window: object) -> str:
    answer = await probe.ask(_READ, path=str(path), **window)
    if answer.is_error:
        raise Fail(f"reading an existing file was answered with {answer}")
    content = answer.fields.get("content")
    if not isinstance(content, str):
        raise Fail(f"the result of {_READ} is {answer.result!r}; it needs a string as content")
    return content


@case("client/fs/read", rules=(277,), needs=CaseNeeds(offers=("fs.readTextFile",)))
async def read(probe: ClientProbe) -> None:
    """fs/read_text_file gives the text of the file as content.

    Reads a file of four lines, also with line and limit null; expects its text.
    """
    path = await _folder(probe) / "lines.txt"
    path.write_text(_LINES)
    for window in ({}, {"line": None, "limit": None}):
        _expect_text(await _read(probe, path, **window), _LINES, f"a file read with {window}")


@case("client/fs/read-window", rules=(274, 277), needs=CaseNeeds(offers=("fs.readTextFile",)))
async def read_window(probe: ClientProbe) -> None:
    """Line and limit select lines, counted from one.

    Reads windows of a file of four lines; expects exactly these lines.
    """
    path = await _folder(probe) / "lines.txt"
    path.write_text(_LINES)
    for line, limit, expected in (
        (1, 1, "one\n"),
        (2, 2, "two\nthree\n"),
        (3, None, "three\nfour\n"),
        (None, 3, "one\ntwo\nthree\n"),
        (4, 100, "four\n"),
    ):
        window = {name: value for name, value in (("line", line), ("limit", limit)) if value is not None}
        _expect_text(await _read(probe, path, **window), expected, f"a file read with {window}")


@case("client/fs/read-missing", rules=(280,), level="SHOULD", needs=CaseNeeds(offers=("fs.readTextFile",)))
async def read_missing(probe: ClientProbe) -> None:
    """Reading a file that does not exist is answered with -32002.

    Reads a file that is not there; expects -32002.
    """
    path = await _folder(probe) / "no-such-file.txt"
    answer = await probe.ask(_READ, path=str(path))
    if answer.code != _NOT_FOUND:
        raise Fail(f"reading a file that does not exist was answered with {answer}")


@case("client/fs/read-meta-ignored", rules=(328,), needs=CaseNeeds(offers=("fs.readTextFile",)))
async def read_meta_ignored(probe: ClientProbe) -> None:
    """_meta of a request changes nothing, even if its keys are those of the request.

    Reads a file with _meta that names another path and `self`; expects the file that was asked for.
    """
    folder = await _folder(probe)
    path, other = folder / "lines.txt", folder / "other.txt"
    path.write_text(_LINES)
    other.write_text("other\n")
    meta = {"path": str(other), "session_id": "EVIL", "limit": 0, "self": 1}
    _expect_text(await _read(probe, path, _meta=meta), _LINES, "a file read with _meta")


@case("client/fs/write-creates", rules=(278,), needs=CaseNeeds(offers=("fs.writeTextFile",)))
async def write_creates(probe: ClientProbe) -> None:
    """fs/write_text_file creates the file if it does not exist.

    Writes a new file; expects to find it on the disk, or to read it back.
    """
    path = await _folder(probe) / "new.txt"
    _expect_written(await probe.ask(_WRITE, path=str(path), content=_LINES))
    if not path.exists() and not (probe.offers("fs.readTextFile") and await _read(probe, path) == _LINES):
        raise Fail("a new file was written, and is not there")


@case("client/fs/write-result", rules=(279,), needs=CaseNeeds(offers=("fs.writeTextFile",)))
async def write_result(probe: ClientProbe) -> None:
    """fs/write_text_file succeeds with an empty object (or null, as the documentation shows).

    Writes a file; looks at the result.
    """
    path = await _folder(probe) / "new.txt"
    answer = await probe.ask(_WRITE, path=str(path), content=_LINES)
    _expect_written(answer)
    if answer.result is not None and answer.fields.keys() - {"_meta"}:
        raise Fail(f"the result of {_WRITE} is {answer.result!r}")


@case("client/fs/write-replaces", rules=(277, 278), needs=CaseNeeds(offers=("fs.writeTextFile", "fs.readTextFile")))
async def write_replaces(probe: ClientProbe) -> None:
    """What was written is what is read afterwards, all of it and nothing else.

    Replaces a long text by a short one with characters of all lengths; expects to read the short one.
    """
    path = await _folder(probe) / "text.txt"
    path.write_text("a text that is longer than the one that replaces it\n" * 3)
    text = "größe\n🦜 ∞\n"
    _expect_written(await probe.ask(_WRITE, path=str(path), content=text))
    _expect_text(await _read(probe, path), text, "a file that was replaced")


@case("client/fs/outside-roots", rules=(281,), level="SHOULD", needs=CaseNeeds(offers=("fs.readTextFile",)))
async def outside_roots(probe: ClientProbe) -> None:
    """A file outside of the session's directories is refused.

    Reads a file of another directory; expects an error.
    """
    await probe.prompted()
    outside = probe.folder / "outside"
    outside.mkdir()
    path = outside / "secret.txt"
    path.write_text("secret\n")
    roots = [probe.cwd, *(probe.first("session/new").params.get("additionalDirectories") or ())]
    if any(path.is_relative_to(root) for root in roots):
        raise Inconclusive(f"the session's directories {roots} hold everything the judge has")
    answer = await probe.ask(_READ, path=str(path))
    if not answer.is_error:
        raise Fail(f"a file outside of {probe.cwd} was read")


def _expect_text(text: str, expected: str, what: str) -> None:
    # The protocol does not state whether the last line of a window keeps its newline.
    if text.removesuffix("\n") != expected.removesuffix("\n"):
        raise Fail(f"{what} gave {text!r} instead of {expected!r}")


def _expect_written(answer: WireMessage) -> None:
    if answer.is_error:
        raise Fail(f"writing a file in the session's directory was answered with {answer}")
