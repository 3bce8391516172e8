"""Hostile archives: a correct one is unpacked completely, any other leaves nothing on the disk."""

from __future__ import annotations

import gzip
import io
import os
import random
import stat
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.registry.archive import ArchiveError, ArchiveLimits, is_archive, unpack
from tests.registry.kit import special, tar, zipped

LONG = "folder/" * 40 + "file.txt"


def unpacked(tmp_path: Path, content: bytes, limits: ArchiveLimits = ArchiveLimits()) -> Path:  # noqa: B008  # a tuple
    archive = tmp_path / "archive"
    archive.write_bytes(content)
    room = tmp_path / "room"
    room.mkdir(exist_ok=True)
    unpack(archive, room / "target", limits=limits)
    return room / "target"


def refused(tmp_path: Path, content: bytes, why: str, limits: ArchiveLimits = ArchiveLimits()) -> None:  # noqa: B008  # a tuple
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArchiveError, match=why):
        unpacked(tmp_path, content, limits)
    left = {path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path not in before}
    assert left <= {Path("archive"), Path("room")}, "nothing may be left on disk"


@pytest.mark.parametrize("packed", ["", "gz", "bz2", "xz"])
def test_tar_arrives_complete(tmp_path: Path, packed: str) -> None:
    folder = tarfile.TarInfo("empty/")
    folder.type = tarfile.DIRTYPE
    plain = tarfile.TarInfo("plain.txt")
    plain.mode = 0o644
    content = tar(("./bin/lark", b"program"), ("ä/" + LONG, b"x" * 100_000), folder, plain, packed=packed)
    target = unpacked(tmp_path, content)
    assert (target / "bin" / "lark").read_bytes() == b"program"
    assert (target / "ä" / LONG).read_bytes() == b"x" * 100_000
    assert (target / "empty").is_dir()
    assert os.access(target / "bin" / "lark", os.X_OK)
    assert not os.access(target / "plain.txt", os.X_OK) or (target / "plain.txt").stat().st_mode & 0o111 == 0
    assert os.listdir(tmp_path / "room") == ["target"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_dialect_of_tar_is_read(tmp_path: Path, form: int) -> None:
    names = ["a", "b/" * 40 + "c", "d" * 99] if form == tarfile.USTAR_FORMAT else ["a", "é" * 60 + "/x", LONG]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name in names:
            header = tarfile.TarInfo(name)
            header.size = 3
            archive.addfile(header, io.BytesIO(b"abc"))
    target = unpacked(tmp_path, buffer.getvalue())
    assert [(target / name).read_bytes() for name in names] == [b"abc"] * len(names)


def test_zip_arrives_complete(tmp_path: Path) -> None:
    program = zipfile.ZipInfo("bin/lark")
    program.create_system, program.external_attr = 3, (stat.S_IFREG | 0o755) << 16
    target = unpacked(tmp_path, zipped((program, b"program"), ("docs/", b""), ("docs/é.txt", b"y" * 100_000)))
    assert os.access(target / "bin" / "lark", os.X_OK)
    assert (target / "docs" / "é.txt").read_bytes() == b"y" * 100_000
    assert (target / "docs" / "é.txt").stat().st_mode & 0o111 == 0


def test_privileges_of_a_member_are_not_taken_over(tmp_path: Path) -> None:
    header = tarfile.TarInfo("suid")
    header.mode, header.uid = 0o6777, 0
    target = unpacked(tmp_path, tar(header))
    mode = (target / "suid").stat().st_mode & 0o7777
    assert mode & 0o6022 == 0


ESCAPES = ["../evil", "a/../../evil", "/etc/evil", "//evil", "..", "a/..", "..\\evil", "C:\\evil", "C:evil", "."]


@pytest.mark.parametrize("name", ESCAPES)
def test_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, tar(("good", b"1"), (name, b"evil")), "refused")
    refused(tmp_path, zipped(("good", b"1"), (name, b"evil")), "refused")


def test_naive_extraction_would_have_escaped(tmp_path: Path) -> None:
    """The control: without a filter the standard library writes to the first of the paths that lead out."""
    archive = io.BytesIO(tar(("../evil", b"evil")))
    (tmp_path / "inner").mkdir()
    with tarfile.open(fileobj=archive) as opened:
        member = opened.getmembers()[0]
        opened._extract_member(member, str(tmp_path / "inner" / member.name))
    assert (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
        (tarfile.GNUTYPE_SPARSE, "a sparse file"),
        (b"Z", "neither a file nor a folder"),
    ],
)
def test_member_that_is_neither_file_nor_folder_is_refused(tmp_path: Path, kind: bytes, why: str) -> None:
    refused(tmp_path, tar(("good", b"1"), special("bad", kind, "/etc/passwd")), why)


def test_link_then_file_is_refused(tmp_path: Path) -> None:
    """A link that leads out, then a file through it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    refused(tmp_path, tar(special("link", tarfile.SYMTYPE, str(outside)), ("link/evil", b"evil")), "a symbolic link")
    assert list(outside.iterdir()) == []


def test_link_or_device_in_a_zip_is_refused(tmp_path: Path) -> None:
    for kind, why in ((stat.S_IFLNK, "a symbolic link"), (stat.S_IFCHR, "neither"), (stat.S_IFIFO, "neither")):
        entry = zipfile.ZipInfo("bad")
        entry.create_system, entry.external_attr = 3, (kind | 0o777) << 16
        refused(tmp_path, zipped(("good", b"1"), (entry, b"/etc/passwd")), why)


def test_link_planted_in_the_folder_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that can write there during the unpacking gains nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    mkdir = os.mkdir

    def plant(path: str | Path, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None:
            os.symlink(outside, path, dir_fd=dir_fd)
            raise FileExistsError(path)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", plant)
    with pytest.raises(ArchiveError, match="refused"):
        unpacked(tmp_path, tar(("folder/evil", b"evil")))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("make", [tar, zipped])
def test_file_that_is_there_twice_or_both_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    with pytest.warns(UserWarning, match="Duplicate") if make is zipped else _nothing():
        twice = make(("a", b"1"), ("a", b"2"))
    refused(tmp_path, twice, "twice")
    refused(tmp_path, make(("a", b"1"), ("a/b", b"2")), "a file and a folder")


class _nothing:  # noqa: N801  # stands where a context is expected
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("make", [tar, zipped, lambda *members: tar(*members, packed="xz")])
def test_bomb_of_a_thousand_to_one_is_refused_while_it_is_read(tmp_path: Path, make: object) -> None:
    assert callable(make)
    bomb = make(("zeros", bytes(24 << 20)))
    assert len(bomb) * 900 < 24 << 20
    refused(tmp_path, bomb, "unpacks to more than")


def test_zip_whose_header_lies_about_its_size_is_stopped_by_what_comes_out(tmp_path: Path) -> None:
    content = bytearray(zipped(("zeros", bytes(40 << 20))))
    size = (40 << 20).to_bytes(4, "little")
    small = (10).to_bytes(4, "little")
    refused(tmp_path, bytes(content.replace(size, small)), "refused")


def test_small_archive_of_zeros_is_harmless(tmp_path: Path) -> None:
    target = unpacked(tmp_path, tar(("zeros", bytes(1 << 20))))
    assert (target / "zeros").stat().st_size == 1 << 20


@pytest.mark.parametrize("make", [tar, zipped])
def test_number_and_size_of_files_are_limited(tmp_path: Path, make: object) -> None:
    assert callable(make)
    noise = random.Random(1).randbytes(2000)
    refused(tmp_path, make(*((f"f{n}", b"") for n in range(11))), "more than 10 files", ArchiveLimits(files=10))
    refused(tmp_path, make(("a", noise), ("b", noise)), "more than 3000 bytes", ArchiveLimits(total_bytes=3000))


HEADER_KINDS = [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE]


def raw(kind: bytes, size: int, name: str = "name") -> bytes:
    """One header block, whatever it claims."""
    header = tarfile.TarInfo(name)
    header.type, header.size = kind, size
    return header.tobuf(tarfile.GNU_FORMAT)


def block(content: bytes) -> bytes:
    return content + bytes(-len(content) % tarfile.BLOCKSIZE)


def pax(**attributes: str) -> bytes:
    """An extended header, with names that Python's keywords cannot spell written as in `GNU_sparse_major`."""
    records = b""
    for name, value in attributes.items():
        record = f" {name.replace('_', '.')}={value}\n".encode()
        length = len(record) + 2 if len(record) < 98 else len(record) + 3
        records += str(length).encode() + record
    return raw(tarfile.XHDTYPE, len(records)) + block(records)


@pytest.mark.parametrize("kind", HEADER_KINDS)
@pytest.mark.parametrize("size", [1 << 15, 1 << 20, 1 << 33, 1 << 60])
def test_header_that_claims_a_long_name_is_refused_without_reading_it(tmp_path: Path, kind: bytes, size: int) -> None:
    refused(tmp_path, raw(kind, size) + bytes(1024), "longer than any path")


@pytest.mark.parametrize("kind", HEADER_KINDS)
def test_long_name_that_is_there_is_refused_before_it_is_in_memory(tmp_path: Path, kind: bytes) -> None:
    content = gzip.compress(raw(kind, 8 << 20) + b"a" * (8 << 20) + raw(tarfile.REGTYPE, 0) + bytes(1024))
    tracemalloc.start()
    try:
        refused(tmp_path, content, "longer than any path")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", HEADER_KINDS)
def test_chain_of_headers_without_a_member_is_refused(tmp_path: Path, kind: bytes) -> None:
    chain = (raw(kind, 9) + block(b"9 abc=de\n")) * 2000
    refused(tmp_path, chain + raw(tarfile.REGTYPE, 0) + bytes(1024), "longer than any path")


def test_long_number_in_a_header_is_refused_without_computing_it(tmp_path: Path) -> None:
    number = raw(tarfile.XHDTYPE, 8192) + b"1" * 8192
    refused(tmp_path, number + raw(tarfile.REGTYPE, 0) + bytes(1024), "a number in a header is too long")


def test_attributes_of_the_whole_archive_are_not_collected(tmp_path: Path) -> None:
    """A global header counts for one member only, so that many of them cannot fill the memory."""
    parts = []
    for number in range(500):
        record = b"8192 key%04d=" % number
        parts.append(raw(tarfile.XGLTYPE, 8192) + record + b"a" * (8191 - len(record)) + b"\n")
        parts.append(raw(tarfile.REGTYPE, 0, f"f{number}"))
    content = gzip.compress(b"".join(parts) + bytes(1024))
    tracemalloc.start()
    try:
        target = unpacked(tmp_path, content)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert len(os.listdir(target)) == 500


SPARSE = {
    "0.0": {"GNU_sparse_size": "1000000", "GNU_sparse_numblocks": "1"},
    "0.1": {"GNU_sparse_map": "0,1", "GNU_sparse_size": "1000000"},
    "1.0": {"GNU_sparse_major": "1", "GNU_sparse_minor": "0", "GNU_sparse_realsize": "1000000"},
    "only its size": {"GNU_sparse_realsize": "1000000"},
}


@pytest.mark.parametrize("attributes", SPARSE.values(), ids=SPARSE.keys())
def test_sparse_file_of_every_form_is_refused(tmp_path: Path, attributes: dict[str, str]) -> None:
    content = pax(**attributes) + raw(tarfile.REGTYPE, 512) + block(b"1\n0\n1\n")
    refused(tmp_path, content + bytes(1024), "a sparse file")


def test_sparse_map_without_end_is_refused(tmp_path: Path) -> None:
    content = pax(**SPARSE["1.0"]) + raw(tarfile.REGTYPE, 1 << 20) + b"900000\n" + b"0\n" * (1 << 19)
    refused(tmp_path, content + bytes(1024), "longer than any path")


@pytest.mark.parametrize("size", ["-1", "-512", "-99999999", "99999999999999999999"])
def test_size_that_cannot_be_is_refused(tmp_path: Path, size: str) -> None:
    refused(tmp_path, pax(size=size) + raw(tarfile.REGTYPE, 0) + bytes(1024), "damaged|too early")
    negative = bytearray(raw(tarfile.REGTYPE, 0))
    negative[124:136] = (int(size) % (1 << 96)).to_bytes(12, "big")
    negative[124] = 0xFF if int(size) < 0 else 0x80
    negative[148:156] = b"        "
    negative[148:156] = b"%06o\0 " % sum(negative)
    refused(tmp_path, bytes(negative) + bytes(1024), "damaged|too early")


def test_damaged_header_after_the_first_is_not_taken_for_the_end(tmp_path: Path) -> None:
    content = bytearray(tar(("a", b"1"), ("b", b"2"), packed=""))
    content[1024 + 150] ^= 1
    refused(tmp_path, bytes(content), "damaged")
    refused(tmp_path, bytes(content[: 1024 + 100]), "too early")


def test_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, tar(("good", b"1"), ("b\udcff", b"2")), "not a name in UTF-8")


@pytest.mark.parametrize("make", [tar, zipped])
def test_file_in_place_of_a_folder_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    refused(tmp_path, make(("a/b", b"1"), ("a", b"2")), "twice")
    refused(tmp_path, make(("a", b"1"), ("a/", b"")), "a file and a folder")


def test_xz_that_wants_gigabytes_to_be_read_is_refused(tmp_path: Path) -> None:
    import lzma

    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    content = lzma.compress(tar(("a", b"1"), packed=""), filters=filters)
    refused(tmp_path, content, "Memory usage limit")


@pytest.mark.parametrize("make", [tar, zipped, lambda *members: tar(*members, packed="bz2")])
def test_damaged_archive_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    whole = make(("a", random.Random(2).randbytes(50_000)), ("b", b"2"))
    refused(tmp_path, whole[: len(whole) // 2], "refused")
    middle = len(whole) // 2
    refused(tmp_path, whole[:middle] + bytes(200) + whole[middle + 200 :], "refused")


def test_encrypted_and_oddly_packed_zips_are_refused(tmp_path: Path) -> None:
    content = bytearray(zipped(("a", b"1")))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    refused(tmp_path, bytes(content), "encrypted")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", b"1" * 100)
    refused(tmp_path, buffer.getvalue(), "unsupported method")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x7fELF" + bytes(600), bytes(2000), b"\x1f\x8bnot gzip"])
def test_other_content_is_not_taken_for_an_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert not is_archive(path)


def test_existing_folder_is_not_unpacked_into(tmp_path: Path) -> None:
    target = unpacked(tmp_path, tar(("a", b"1")))
    with pytest.raises(ArchiveError, match="exists already"):
        unpacked(tmp_path, tar(("b", b"1")))
    assert os.listdir(target) == ["a"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_bytes_are_unpacked_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(
        data.draw(st.sampled_from([tar(("a/b", b"12")), tar(("a", b"1"), packed=""), zipped(("a", b"1"))]))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    room = tmp_path / os.urandom(8).hex()
    room.mkdir()
    (room / "archive").write_bytes(whole)
    try:
        unpack(room / "archive", room / "target")
    except ArchiveError:
        assert os.listdir(room) == ["archive"]
    else:
        assert sorted(os.listdir(room)) == ["archive", "target"]
