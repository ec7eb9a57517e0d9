"""The work queue: nothing is missed, nothing is done twice at once."""

from __future__ import annotations

import asyncio

from mooring.operator.work import WorkQueue

A, B = ("n", "a"), ("n", "b")


async def taken(queue: WorkQueue) -> tuple[str, str] | None:
    try:
        return await asyncio.wait_for(queue.take(), 0.01)
    except TimeoutError:
        return None


def test_a_key_added_often_is_taken_once() -> None:
    async def story() -> None:
        queue = WorkQueue()
        for _ in range(3):
            queue.add(A)
        assert await taken(queue) == A
        assert await taken(queue) is None

    asyncio.run(story())


def test_a_key_added_while_it_is_worked_on_comes_once_more() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add(A)
        assert await taken(queue) == A
        queue.add(A)
        queue.add(A)
        assert await taken(queue) is None
        queue.done(A)
        assert await taken(queue) == A
        queue.done(A)
        assert await taken(queue) is None
        assert len(queue) == 0

    asyncio.run(story())


def test_the_earliest_time_wins_whatever_was_said_first() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add(A, 3600)
        queue.add(B, 1800)
        assert await taken(queue) is None
        queue.add(A)
        assert await taken(queue) == A
        queue.add(B, 7200)
        assert len(queue) == 1

    asyncio.run(story())


def test_a_failure_brings_the_key_back_later_each_time_until_it_succeeds() -> None:
    async def story() -> list[float]:
        queue = WorkQueue()
        clock = asyncio.get_running_loop().time
        waits = []
        queue.add(A)
        for failed in (True, True, False):
            began_s = clock()
            assert await asyncio.wait_for(queue.take(), 5) == A
            waits.append(clock() - began_s)
            queue.done(A, failed=failed)
        queue.add(A)
        await queue.take()
        queue.done(A, failed=True)
        began_s = clock()
        await asyncio.wait_for(queue.take(), 5)
        return [*waits, clock() - began_s]

    waits = asyncio.run(story())
    # 0.1 s, then 0.2 s; after a success 0.1 s again. Clocks may differ by a tick.
    least = (0.1, 0.2, 0.1)
    assert all(wait > one - 0.01 for wait, one in zip(waits[1:], least, strict=True))


def test_a_key_that_has_just_been_worked_on_rests() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add_after_rest(A)
        assert await taken(queue) == A  # the first of a burst is not kept waiting
        queue.add_after_rest(A)
        queue.done(A)
        queue.add_after_rest(A)
        assert len(queue) == 1
        assert await queue.take() == A  # the rest of the burst, together
        queue.done(A)
        queue.add_after_rest(A)
        queue.add(A)
        assert await taken(queue) == A  # whoever has a reason of his own does not wait

    asyncio.run(story())
