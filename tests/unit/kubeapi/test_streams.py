"""Messages come whole however their bytes arrive."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.backends.kubernetes.api.streams import LONGEST, Cutter, Frames, LineStream

cuts = st.lists(st.integers(1, 7))


def arrive(cutter: Cutter, raw: bytes, lengths: Sequence[int]) -> list[bytes]:
    """In pieces of these lengths, and then the rest."""
    found: list[bytes] = []
    for length in [*lengths, len(raw)]:
        found += cutter.whole(raw[:length])
        raw = raw[length:]
    last = cutter.last()
    return [*found, last] if last else found


@given(st.lists(st.binary(max_size=9)), cuts)
def test_frames(messages: list[bytes], lengths: list[int]) -> None:
    raw = b"".join(len(one).to_bytes(4, "big") + one for one in messages)
    assert arrive(Frames(), raw, lengths) == messages


@given(st.lists(st.text("ab", max_size=5)), cuts, st.booleans())
def test_lines(lines: list[str], lengths: list[int], ended: bool) -> None:
    raw = ("\n".join(lines) + "\n" * ended).encode()
    assert arrive(LineStream(), raw, lengths) == [line.encode() for line in lines if line]


@pytest.mark.parametrize("raw", [b"\0", b"\0\0\0\x05half"])
def test_half_a_message_at_the_end_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="half a message"):
        arrive(Frames(), raw, [])


def test_nobody_makes_us_wait_for_a_message_without_end() -> None:
    with pytest.raises(ValueError, match="4294967295 bytes"):
        list(Frames().whole(b"\xff\xff\xff\xff"))
    with pytest.raises(ValueError, match="a line of over"):
        list(LineStream().whole(b"x" * (LONGEST + 1)))
