"""Imported by Python at its start, because the launcher put this folder on PYTHONPATH.

Another sitecustomize that this one hides (of the image, or of the user) runs first. Nothing that
goes wrong here may keep the program from starting.
"""

import os
import sys


def _hidden() -> None:
    """Run the sitecustomize that would have been found without this one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


try:
    _hidden()
except ImportError:
    pass

if os.environ.get("MOORING_INSIDE"):
    try:
        from importlib import import_module

        import_module("mooring_inside").start(os.environ["MOORING_INSIDE"])
    except Exception as error:
        sys.stderr.write("mooring: cannot look inside this program: %s\n" % error)
