"""One adapter a framework: a job becomes members, and an identity becomes argv, env and files.

`expand` and `identify` are the same for all; what differs between frameworks (role names, ranks,
variables) is in one adapter each, found through an entry point.
"""

from mooring.frameworks.base import Framework, RoleFacts
from mooring.frameworks.expand import expand, success_policy
from mooring.frameworks.identify import identify
from mooring.frameworks.registry import find, names, starter_files
from mooring.model.member import Duty

__all__ = [
    "Duty",
    "Framework",
    "RoleFacts",
    "expand",
    "find",
    "identify",
    "names",
    "starter_files",
    "success_policy",
]
