"""Keeping and taking back single hunks."""

from __future__ import annotations

import pytest

from dragoman.snapshots.review import Review, ReviewRefused
from tests.snapshots.kit import Folder

LINES = [f"line {number}\n" for number in range(30)]


def changed(folder: Folder) -> Review:
    folder.write("a.txt", "".join(LINES))
    text = "".join(LINES).replace("line 3\n", "three\n").replace("line 20\n", "twenty\nmore\n")
    record = folder.turn(lambda: folder.write("a.txt", text))
    return Review(folder.rewinder, record)


def test_one_hunk_is_taken_back_and_redone(folder: Folder) -> None:
    review = changed(folder)
    (file,) = review.files()
    assert len(file.hunks) == 2
    review.revert("a.txt", [1])
    assert folder.read("a.txt") == "".join(LINES).replace("line 20\n", "twenty\nmore\n").encode()
    folder.redo()
    assert b"three\n" in folder.read("a.txt")


def test_a_hunk_is_found_although_lines_elsewhere_were_changed_since(folder: Folder) -> None:
    review = changed(folder)
    folder.write("a.txt", b"my first line\n" + folder.read("a.txt"))
    review.revert("a.txt", [2])
    assert b"line 20\n" in folder.read("a.txt")
    assert folder.read("a.txt").startswith(b"my first line\n")
    assert b"three\n" in folder.read("a.txt")


def test_a_hunk_is_refused_if_the_lines_around_it_were_changed(folder: Folder) -> None:
    review = changed(folder)
    mine = folder.read("a.txt").replace(b"line 4\n", b"mine\n")
    folder.write("a.txt", mine)
    with pytest.raises(ReviewRefused, match="around line 4 were changed"):
        review.revert("a.txt", [1])
    assert folder.read("a.txt") == mine


def test_a_hunk_is_refused_if_its_place_is_not_certain(folder: Folder) -> None:
    review = changed(folder)
    folder.write("a.txt", folder.read("a.txt") * 2)
    with pytest.raises(ReviewRefused, match="2 times"):
        review.revert("a.txt", [1])


def test_a_whole_file_is_taken_back_deleted_ones_included(folder: Folder) -> None:
    folder.write("gone.txt", "gone\n")

    def work() -> None:
        (folder.root / "gone.txt").unlink()
        folder.write("new.txt", "quite different\n")

    review = Review(folder.rewinder, folder.turn(work))
    review.revert("gone.txt")
    review.revert("new.txt")
    assert folder.read("gone.txt") == b"gone\n"
    assert not (folder.root / "new.txt").exists()


def test_a_renamed_file_is_taken_back_to_its_old_name(folder: Folder) -> None:
    folder.write("old.txt", "".join(LINES))
    review = Review(folder.rewinder, folder.turn(lambda: (folder.root / "old.txt").rename(folder.root / "new.txt")))
    review.revert("new.txt")
    assert folder.read("old.txt") == "".join(LINES).encode()
    assert not (folder.root / "new.txt").exists()


def test_what_was_kept_is_remembered(folder: Folder) -> None:
    review = changed(folder)
    review.keep("a.txt", [1])
    (file,) = review.files()
    assert (file.kept, file.is_kept) == (frozenset({1}), False)
    review.keep("a.txt", [2])
    assert review.files()[0].is_kept


def test_files_and_hunks_that_do_not_exist_are_refused(folder: Folder) -> None:
    review = changed(folder)
    with pytest.raises(ReviewRefused, match="was not changed"):
        review.keep("other.txt")
    with pytest.raises(ReviewRefused, match="no hunk 3"):
        review.revert("a.txt", [3])


def test_a_binary_file_has_no_hunks_but_is_taken_back_whole(folder: Folder) -> None:
    folder.write("a.bin", b"\0one")
    review = Review(folder.rewinder, folder.turn(lambda: folder.write("a.bin", b"\0two")))
    assert review.files()[0].hunks == ()
    review.revert("a.bin")
    assert folder.read("a.bin") == b"\0one"


def neighbours(folder: Folder) -> Review:
    """Two hunks with one line between them."""
    folder.write("a.txt", "one\ntwo\nthree\n")
    record = folder.turn(lambda: folder.write("a.txt", "ONE\nand more\ntwo\nTHREE\n"))
    return Review(folder.rewinder, record)


def test_a_hunk_next_to_one_that_was_taken_back_can_be_taken_back_too(folder: Folder) -> None:
    review = neighbours(folder)
    review.revert("a.txt", [1])
    assert folder.read("a.txt") == b"one\ntwo\nTHREE\n"
    (file,) = review.files()
    assert (list(file.reverted), file.open, file.is_reverted) == ([1], 1, False)
    with pytest.raises(ReviewRefused, match="hunk 1 was taken back already"):
        review.revert("a.txt", [1])
    review.revert("a.txt", [2])
    assert folder.read("a.txt") == b"one\ntwo\nthree\n"
    (file,) = review.files()
    assert (file.is_reverted, file.open) == (True, 0)


def test_each_hunk_can_be_brought_back_by_itself(folder: Folder) -> None:
    review = neighbours(folder)
    first, second = review.revert("a.txt", [1]), review.revert("a.txt", [2])
    review.undo(first.number)
    assert folder.read("a.txt") == b"ONE\nand more\ntwo\nthree\n"
    (file,) = review.files()
    assert file.reverted == {2: second.number}
    with pytest.raises(ReviewRefused, match="already"):
        review.undo(first.number)
    review.undo(second.number)
    assert folder.read("a.txt") == b"ONE\nand more\ntwo\nTHREE\n"
    assert review.files()[0].open == 2


def test_what_was_changed_since_is_not_lost_by_bringing_a_hunk_back(folder: Folder) -> None:
    review = neighbours(folder)
    outcome = review.revert("a.txt", [1])
    folder.write("a.txt", "mine\ntwo\nTHREE\n")
    with pytest.raises(ReviewRefused, match="both changes touch the same lines"):
        review.undo(outcome.number)
    assert folder.read("a.txt") == b"mine\ntwo\nTHREE\n"


def test_decisions_are_there_for_the_next_review_and_a_redo_ends_one(folder: Folder) -> None:
    review = changed(folder)
    review.keep("a.txt")
    review.revert("a.txt", [1])
    (file,) = Review(folder.rewinder, folder.rewinder.store.turns()[-1]).files()
    assert (set(file.kept), list(file.reverted), file.open) == ({2}, [1], 0)
    folder.redo()
    (file,) = review.files()
    assert (set(file.kept), list(file.reverted), file.open) == ({2}, [], 1)
    review.unkeep("a.txt", [2])
    assert review.files()[0].open == 2


def test_all_files_of_a_turn_that_was_rewound_are_taken_back(folder: Folder) -> None:
    review = changed(folder)
    folder.rewind()
    assert review.files()[0].is_reverted
    folder.redo()
    assert not review.files()[0].is_reverted
