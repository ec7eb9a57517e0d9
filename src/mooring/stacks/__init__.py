"""What a stack is about, by names (`classify`), and py-spy, which reads stacks at a standstill.

While a job trains its launchers look (`launcher/looks.py`); py-spy is asked once it stands still.
"""

from mooring.stacks.categories import Category
from mooring.stacks.tool import MISSING, OFF, find_tool

__all__ = ["MISSING", "OFF", "Category", "find_tool"]
