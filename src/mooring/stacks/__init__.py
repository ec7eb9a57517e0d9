"""What trainers do, seen from outside: their main threads' stacks by py-spy, and what they read.

`watch.Watch` runs beside a job and keeps a little of each look in `stacks/M.jsonl`; `classify` says
what a stack is about. Nothing of a stack is kept but counts and the names of functions and files.
"""

from mooring.stacks.categories import Category
from mooring.stacks.tool import MISSING, OFF, find_tool

__all__ = ["MISSING", "OFF", "Category", "find_tool"]
