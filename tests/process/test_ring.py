"""The bounded tail of stderr."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.process.ring import Ring


@given(st.lists(st.binary(max_size=300)), st.integers(1, 400))
def test_the_ring_keeps_exactly_the_last_bytes(pieces: list[bytes], keep: int) -> None:
    ring = Ring(keep)
    for piece in pieces:
        ring.add(piece)
    assert ring.kept() == b"".join(pieces)[-keep:]
    assert ring.total_bytes == len(b"".join(pieces))


def test_memory_stays_bounded_under_a_flood() -> None:
    ring = Ring(1000)
    for number in range(20_000):
        ring.add(b"%099d\n" % number)
        assert len(ring._bytes) <= 1000 + (256 << 10)
    assert ring.kept() == b"".join(b"%099d\n" % number for number in range(19_990, 20_000))


def test_the_tail_is_text_and_never_starts_with_half_a_character() -> None:
    ring = Ring()
    ring.add("aé€".encode())
    assert [ring.tail(size) for size in range(6, 0, -1)] == ["aé€", "é€", "€", "€", "", ""]
    ring.add(b"\xff!")
    assert ring.tail() == "aé€�!"
