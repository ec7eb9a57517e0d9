"""When a job will have made its steps: from the rate of the last minute, and without jumping."""

from __future__ import annotations

from mooring.model.amounts import rough_duration

#: A rate over less than this says nothing.
_LEAST_SPAN_S = 0.1
#: The first estimates change much (the first steps compile, open files, fill caches): not shown.
_SETTLES_S = 3.0
#: The end that was told stays while a new estimate is this close to it, in parts of what is left.
_TOLERANCE = 0.1


class Eta:
    """Keeps the end that it told until the estimate has moved clearly; begins after a while."""

    def __init__(self) -> None:
        self._end_s: float | None = None
        self._since_s: float | None = None

    def left_s(self, now_s: float, estimate_s: float | None) -> float | None:
        """Seconds left to show now, given an estimate of them; None if there is none."""
        if estimate_s is None:
            self._end_s = self._since_s = None
            return None
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s < _SETTLES_S:
            return None
        end_s = now_s + estimate_s
        if self._end_s is None or abs(end_s - self._end_s) > _TOLERANCE * max(estimate_s, 10.0):
            self._end_s = end_s
        return max(0.0, self._end_s - now_s)


def estimate_s(points: list[tuple[float, float]], total: int, now_s: float) -> float | None:
    """Seconds until `total`, from (time, steps done) of the last minute. None if nobody can say:
    too few steps yet, or none for much longer than they took.
    """
    if len(points) < 2:
        return None
    (begin_s, begin), (end_s, done) = points[0], points[-1]
    span_s, made = end_s - begin_s, done - begin
    if span_s < _LEAST_SPAN_S or made <= 0:
        return None
    silent_s = now_s - end_s
    if silent_s > 3 * span_s / (len(points) - 1) + 10.0:
        return None
    return max(0.0, (total - done) * span_s / made - silent_s)


def about(seconds: float) -> str:
    """`about 40 s`, `about 3 h 20 min`."""
    return f"about {rough_duration(seconds)}"
