from __future__ import annotations

from pathlib import Path

import pytest

from mooring.launcher.own import judge, online_cpus


@pytest.mark.parametrize(
    ("exclusive", "millis", "held", "online", "own", "why"),
    [
        (True, 2000, 2, 8, True, ""),
        # A shared pool that happens to be as large: nobody asked for more, nothing is promised.
        (False, 2000, 2, 8, False, ""),
        (True, 2000, 8, 8, False, "all 8 CPUs of the node"),
        # The static policy's shared pool: 8 of the node less 1 that is reserved.
        (True, 2000, 7, 8, False, "7 CPUs, not the 2"),
        (True, 8000, 8, 8, False, "nobody can tell"),
        (True, 1500, 2, 8, False, "1500m"),
        (True, None, 2, 8, False, "0m"),
        (True, 2000, 2, None, True, ""),
    ],
)
def test_cpus_are_its_own_if_they_are_as_many_and_not_all(
    exclusive: bool, millis: int | None, held: int, online: int | None, own: bool, why: str
) -> None:
    answer = judge(exclusive, millis, held, online)
    assert answer[0] is own
    assert why in answer[1]
    assert bool(answer[1]) is (exclusive and not own)


def test_online_cpus_are_counted_and_unknown_where_the_system_does_not_say(tmp_path: Path) -> None:
    listed = tmp_path / "online"
    listed.write_text("0-2,5\n")
    assert online_cpus(str(listed)) == 4
    assert online_cpus(str(tmp_path / "none")) is None
