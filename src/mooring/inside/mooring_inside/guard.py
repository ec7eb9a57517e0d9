"""Every change of somebody else's function goes through here, so that none can break a program.

Our own code runs beside the function, or instead of it. If it fails, whatever the error, the
function is put back as it was, the call goes on without us, and the report says so once. Errors of
the function itself are the program's: they pass untouched.
"""

from __future__ import annotations

import functools

from . import telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: Raised by signals (Ctrl-C, a handler that calls sys.exit): they are the program's, not ours.
_PROGRAMS_OWN = (KeyboardInterrupt, SystemExit)
_noted: set[str] = set()


def note(what: str, error: BaseException) -> None:
    """Say once that `what` could not be looked at."""
    if what in _noted:
        return
    _noted.add(what)
    try:
        reason = "%s: %s" % (type(error).__name__, error)
    except Exception:
        reason = type(error).__name__
    telling.note("could not look into %s: %s" % (what, reason))


def attempt(what: str, own: Callable[..., Any], *args: Any) -> None:
    """Run our own code; it may fail."""
    try:
        own(*args)
    except _PROGRAMS_OWN:
        raise
    except BaseException as error:
        note(what, error)


def beside(
    owner: Any,
    name: str,
    what: str,
    before: Callable[..., None] | None = None,
    after: Callable[..., None] | None = None,
    ended: Callable[[], None] | None = None,
) -> None:
    """Call `before` with the arguments of `owner.name`, and `after` with its result and them.

    `ended` is called also when the function raises. What ours return is ignored.
    """
    hook = _Hook(owner, name, what)

    def watched(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            hook.run(before, *args, **kwargs)
        try:
            result = hook.original(*args, **kwargs)
        finally:
            if ended is not None:
                hook.run(ended)
        if after is not None:
            hook.run(after, result, *args, **kwargs)
        return result

    hook.put(watched)


def instead(owner: Any, name: str, what: str, changed: Callable[..., Any]) -> None:
    """Call `changed` instead of `owner.name`, unless it answers NotImplemented or fails.

    It must not call the function itself, and do what cannot be undone last.
    """
    hook = _Hook(owner, name, what)

    def replaced(*args: Any, **kwargs: Any) -> Any:
        result = hook.run(changed, *args, **kwargs)
        return hook.original(*args, **kwargs) if result is NotImplemented else result

    hook.put(replaced)


class _Hook:
    """One function of somebody else, with ours around it until ours fails."""

    def __init__(self, owner: Any, name: str, what: str) -> None:
        self._owner, self._name, self._what = owner, name, what
        self.original: Any = getattr(owner, name)
        self._inherited = name not in vars(owner)
        self._wrapper: Any = None

    def put(self, wrapper: Any) -> None:
        """The wrapper keeps name, text and signature: Keras asks for these."""
        self._wrapper = functools.wraps(self.original)(wrapper)
        setattr(self._owner, self._name, self._wrapper)

    def run(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What ours answers; NotImplemented if it fails, now or earlier."""
        if self._wrapper is None:
            return NotImplemented
        try:
            return own(*args, **kwargs)
        except _PROGRAMS_OWN:
            raise
        except BaseException as error:
            self._take_away()
            note(self._what, error)
            return NotImplemented

    def _take_away(self) -> None:
        wrapper, self._wrapper = self._wrapper, None
        # Somebody may have wrapped ours in turn: then it stays, and passes everything on.
        if vars(self._owner).get(self._name) is not wrapper:
            return
        if self._inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self.original)
