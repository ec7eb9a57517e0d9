"""Where variables go: the three placements, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.sharding import Variable, VariablePlacement, imbalance, lay_out, part_rows, shards

MI = 1 << 20
MODEL = (
    Variable("table", 1000, 100 * MI, 900.0),
    Variable("bias", 64, 256, 20.0),
    Variable("kernel", 128, 64 * 1024, 60.0),
    Variable("out", 64, 256, 20.0),
)


@pytest.mark.parametrize(
    ("placement", "servers", "loads"),
    [
        # In turn: table 0, bias 1, kernel 0, out 1.
        (VariablePlacement.ROUND_ROBIN, 2, [960.0, 40.0]),
        # By bytes: the table fills server 0; all others are smaller, so they go to server 1.
        (VariablePlacement.BALANCED, 2, [900.0, 100.0]),
        # 500 rows each; then 0 has 256 bytes of bias, 1 the kernel, and out goes to 0 again.
        (VariablePlacement.PARTITIONED, 2, [450 + 40.0, 450 + 60.0]),
        # 250 rows each; bias on 0, kernel on 1, out on 2.
        (VariablePlacement.PARTITIONED, 4, [225 + 20.0, 225 + 60.0, 225 + 20.0, 225.0]),
    ],
)
def test_bytes_a_step_of_each_server(
    placement: VariablePlacement, servers: int, loads: list[float]
) -> None:
    assert lay_out(MODEL, servers, placement).step_bytes() == pytest.approx(loads)


@pytest.mark.parametrize(
    ("rows", "size", "servers", "most", "count"),
    [
        (1000, 100 * MI, 4, 1 << 30, 4),  # one part a server
        (1000, 100 * MI, 4, 10 * MI, 12),  # 100 / 10 = 10 parts, the next multiple of 4 is 12
        (1000, 100 * MI, 4, 25 * MI, 4),  # 25 MiB each: just fits
        (1000, 200 << 10, 4, 1 << 30, 1),  # below 256 KiB it stays whole
        (3, 100 * MI, 4, 1 << 30, 3),  # a row cannot be cut
        (1, 100 * MI, 4, 1 << 30, 1),
        (1000, 100 * MI, 1, 1 * MI, 1),  # a single server: parts would share it
    ],
)
def test_how_many_parts(rows: int, size: int, servers: int, most: int, count: int) -> None:
    assert shards(rows, size, servers, most) == count


def test_uneven_rows_are_divided_as_tensorflow_does() -> None:
    assert [part_rows(10, 4, number) for number in range(4)] == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([3.0, 1.0], 1.5),
        ([1.0, 1.0], 1.0),
        ([4.0, 0.0, 0.0, 0.0], 4.0),
        ([0.0, 0.0], 1.0),
        ([0.7] * 6, 1.0),
    ],
)
def test_imbalance_is_the_highest_over_the_mean(loads: list[float], expected: float) -> None:
    assert imbalance(loads) == expected


@given(
    st.lists(
        st.builds(
            Variable,
            st.text(max_size=3),
            st.integers(1, 5000),
            st.integers(4, 1 << 32),
            st.floats(0, 1e9),
        ),
        max_size=12,
    ),
    st.integers(1, 9),
    st.sampled_from(VariablePlacement),
    st.integers(1024, 1 << 30),
)
def test_nothing_is_lost_and_no_part_is_too_large(
    variables: list[Variable], servers: int, placement: VariablePlacement, most: int
) -> None:
    layout = lay_out(variables, servers, placement, most)
    assert sum(layout.size_bytes()) == pytest.approx(sum(one.size_bytes for one in variables))
    assert sum(layout.step_bytes()) == pytest.approx(sum(one.step_bytes for one in variables))
    assert sum(part.end - part.begin for part in layout.parts) == sum(one.rows for one in variables)
    assert all(0 <= part.server < servers for part in layout.parts)
    assert 1.0 <= layout.imbalance <= servers + 1e-9
