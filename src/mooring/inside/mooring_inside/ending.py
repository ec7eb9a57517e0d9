"""A chief that lets go of functions does not wait for workers that are busy with letting go.

TensorFlow removes a function on all workers when the last Python object of it dies, one call after
the other, and waits for each answer while it holds the interpreter. A worker that destroys an
iterator of tf.data answers nobody until the iterator's tuning thread has ended. That thread is
woken by a cancellation that is marked as done only after the wake-up; where the thread runs first
(a worker on one CPU: often), it goes back to sleep, for as long as a minute. So a program that had
nothing left to do sat still before its exit.

Here another thread makes these calls and the program waits for each only for a moment. What is left
when the program ends is not done: the functions end with the workers.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import sys
import threading

from . import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Calls take some milliseconds where nobody sleeps.
_PATIENCE_S = 0.2
#: ParameterServerStrategy sets it to this. Elsewhere calls are not waited for anyway.
_STREAMING, _OFF = "TF_ENABLE_EAGER_CLIENT_STREAMING_ENQUEUE", "False"
_OK = 0
_WHAT = "what the program lets go of"


def let_go_at_once(module: Any) -> None:
    """`module`: tensorflow.python.eager.context."""
    guard.instead(module.Context, "remove_function", _WHAT, _Remover().remove)


class _Remover:
    """Removes functions from contexts, on a thread that starts with the first of them."""

    def __init__(self) -> None:
        self._library: Any = None
        self._waiting: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._late = False
        self._ending = False

    def remove(self, context: Any, name: Any) -> Any:
        """None once it is removed or will be; NotImplemented where TensorFlow shall do it."""
        if self._ending:
            return None
        if os.environ.get(_STREAMING) != _OFF:
            return NotImplemented
        if self._thread is None:
            self._start()
        assert self._thread is not None
        if self._process != os.getpid() or not self._thread.is_alive():
            # Of a process that was forked the thread stayed behind.
            return NotImplemented
        context.ensure_initialized()
        call = _Call(context._handle, name)
        self._waiting.put(call)
        if self._late or threading.current_thread() is self._thread:
            return None
        if not call.done.wait(_PATIENCE_S):
            self._late = True
        # A call that failed is made again by TensorFlow, which says why in its own words.
        return NotImplemented if call.failed else None

    def _start(self) -> None:
        self._library = _Library()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="mooring-remover", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def _end(self) -> None:
        self._ending = True

    def _run(self) -> None:
        guard.attempt(_WHAT, self._remove_all)

    def _remove_all(self) -> None:
        while not self._ending:
            call = self._waiting.get()
            if not _in_use(call):
                call.failed = not self._library.remove(call.context, call.name)
            call.done.set()
            # Nobody else may need the context by now.
            del call
            if self._waiting.empty():
                self._late = False


class _Call:
    def __init__(self, context: Any, name: bytes | str) -> None:
        self.context, self.name = context, name
        self.done = threading.Event()
        self.failed = False


def _in_use(call: _Call) -> bool:
    """Whether a function of that name has been made again since."""
    module = sys.modules.get("tensorflow.python.eager.polymorphic_function.atomic_function")
    counts = getattr(module, "RUNTIME_FUNCTION_REFS", None) or {}
    return bool(counts.get((id(call.context), call.name), 0) > 0)


class _Library:
    """TensorFlow's C interface. Raises AttributeError where a build does not show it."""

    def __init__(self) -> None:
        # Of our own, because the types of arguments are kept with the object.
        python, tensorflow = ctypes.PyDLL(None), ctypes.CDLL(_wrapper_file())
        self._name = python.PyCapsule_GetName
        self._name.restype = ctypes.c_char_p
        self._name.argtypes = [ctypes.py_object]
        self._pointer = python.PyCapsule_GetPointer
        self._pointer.restype = ctypes.c_void_p
        self._pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self._new = tensorflow.TF_NewStatus
        self._new.restype = ctypes.c_void_p
        self._code, self._delete = tensorflow.TF_GetCode, tensorflow.TF_DeleteStatus
        self._remove = tensorflow.TFE_ContextRemoveFunction
        self._code.argtypes = self._delete.argtypes = [ctypes.c_void_p]
        self._remove.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    def remove(self, context: Any, name: bytes | str) -> bool:
        """Whether it worked. Other threads of the program go on meanwhile."""
        text = name if isinstance(name, bytes) else name.encode()
        address = self._pointer(context, self._name(context))
        status = self._new()
        self._remove(address, text, status)
        worked = bool(self._code(status) == _OK)
        self._delete(status)
        return worked


def _wrapper_file() -> str:
    return str(sys.modules["tensorflow.python._pywrap_tfe"].__file__)
