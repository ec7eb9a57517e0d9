"""What a program imports, read from its text. What is said to be certain must be."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.frameworks.engines import framework_of_imports, framework_of_program
from mooring.frameworks.imports import Imports, named_modules, read_imports


def imports(text: str, **modules: str) -> Imports:
    """`modules` are those beside the program, by name; a name that ends with _ is a package."""

    def read(name: str) -> tuple[str, bool] | None:
        key = name.replace(".", "__")
        if f"{key}_" in modules:
            return modules[f"{key}_"], True
        return (modules[key], False) if key in modules else None

    found = read_imports(text, "", read)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "import os, torch.nn as nn",
        "from torch import nn",
        "import sys\nimport subprocess\nimport importlib.util\nimport torch",
        "try:\n    import torch\nfinally:\n    pass",
        "'''doc'''\nfrom __future__ import annotations\nimport torch\nimport sys\nsys.exit(main())",
        "X = 1\nif X:\n    pass\nimport torch",
    ],
)
def test_certain_imports(text: str) -> None:
    assert "torch" in imports(text).always


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import torch\nexcept ImportError:\n    torch = None",
        "def main():\n    import torch",
        "if 0:\n    import torch",
        "import contextlib\nwith contextlib.suppress(ImportError):\n    import torch",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
        "import sys\nsys.path.insert(0, '/opt')\nimport torch",
        "import sys\nsys.modules['torch'] = object()\nimport torch",
        "import site\nsite.addsitedir('/opt')\nimport torch",
        "import subprocess, sys\nsubprocess.run(['pip', 'install', 'torch'])\nimport torch",
        "from subprocess import run\nrun(['pip', 'install', 'torch'])\nimport torch",
        "import subprocess as sp\nsp.run(['pip', 'install', 'torch'])\nimport torch",
        "import os\nos.execvp('conda', ['conda'])\nimport torch",
        "import os\nos.system('pip install torch')\nimport torch",
        "import sys\nif len(sys.argv) > 1:\n    sys.exit()\nimport torch",
        "raise SystemExit\nimport torch",
        "exec('import sys; sys.path.append(1)')\nimport torch",
        "class A:\n    import torch",
        "from .torch import x",
    ],
)
def test_imports_that_may_not_happen_are_not_certain(text: str) -> None:
    assert "torch" not in imports(text).always


def test_imports_of_the_programs_own_modules_count() -> None:
    found = imports("import trainer", trainer="from net import Net", net="import torch")
    assert {"trainer", "net", "torch"} <= found.always
    inside = imports("def f():\n    import trainer", trainer="import torch")
    assert (inside.always, "torch" in inside.sometimes) == (frozenset(), True)
    package = imports("from a import b", a_="", a__b="from . import c", a__c="import torch")
    assert "torch" in package.always


def test_an_own_module_that_changes_the_path_makes_the_rest_uncertain() -> None:
    found = imports("import _paths\nimport torch", _paths="import sys\nsys.path.append('/x')")
    assert "torch" in found.sometimes
    broken = imports("import old\nimport torch", old="print 'python 2'")
    assert "torch" in broken.sometimes


def test_modules_that_import_each_other_end() -> None:
    assert "torch" in imports("import a", a="import b", b="import a\nimport torch").always


@pytest.mark.parametrize(
    ("text", "package", "expected"),
    [
        ("import a, b.c as d # e", "", {"a", "b.c"}),
        ("from a import b as c, d", "", {"a", "a.b", "a.d"}),
        ("from a.b import (c,\n    d)", "", {"a.b", "a.b.c"}),
        ("def f():\n    import a; import b", "", {"a", "b"}),
        ("from . import x\nfrom ..y import z", "p.q", {"p.q", "p.q.x", "p.y", "p.y.z"}),
        ("from . import x", "", set()),
        ("# import a\nimported = 1\n'import b'", "", set()),
    ],
)
def test_modules_that_a_text_names(text: str, package: str, expected: set[str]) -> None:
    assert named_modules(text, package) == expected


def test_a_text_that_is_no_python_says_nothing() -> None:
    assert read_imports("print 'x'", "", lambda name: None) is None
    assert read_imports("\0", "", lambda name: None) is None


_LINES = st.sampled_from(
    """import torch
from a import b
import a.b
from . import y
try:
except E:
else:
    import x
    pass
def f():
if 1:
with s:
sys.path
raise
class A:""".splitlines()
)


@given(st.lists(_LINES, max_size=12).map("\n".join) | st.text(max_size=200))
@example("(" * 5000)
def test_any_text_has_an_answer(text: str) -> None:
    found = read_imports(text, "pkg", lambda name: (text, name == "a"))
    named = {name.partition(".")[0] for name in named_modules(text, "pkg")}
    if found is not None:
        # What is searched for quickly is only looked at closely where it is found.
        assert found.always <= named
        assert found.always.isdisjoint(found.sometimes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch", ("pytorch", "torch")),
        ("import lightning", ("pytorch", "lightning")),
        ("import tensorflow as tf", ("tensorflow", "tensorflow")),
        ("from mpi4py import MPI", ("mpi", "mpi4py")),
        ("from mpi4py import MPI\nimport torch", ("pytorch", "torch")),
        ("import tensorflow\nif GPU:\n    import torch", ("tensorflow", "tensorflow")),
        ("def main():\n    import torch", ("pytorch", "torch")),
        ("import json", None),
    ],
)
def test_the_framework_of_a_program(text: str, expected: tuple[str, str] | None) -> None:
    assert framework_of_imports(imports(text)) == expected


def test_the_framework_of_a_launcher() -> None:
    assert framework_of_program("torchrun") == "pytorch"
    assert framework_of_program("mpirun") == "mpi"
    assert framework_of_program("make") is None
