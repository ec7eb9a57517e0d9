"""What a Python program imports, from its text alone: nothing of it is run.

`always` must not be wrong, because a job is refused on the strength of it: only imports that are
carried out whenever the program runs, before anything that might end it, replace it, install
packages or change where modules come from. `sometimes` has all the others.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: More modules of the program's own than this are not looked into.
_MOST_MODULES = 200
#: The text of one of the program's own modules by its dotted name, and whether it is a package.
ReadModule = Callable[[str], tuple[str, bool] | None]

#: After the use of these an import says nothing for certain.
_DOUBTFUL_OF = {
    "sys": {"path", "modules", "meta_path", "path_hooks", "exit"},
    "os": {"system", "_exit", "abort", "popen"},
}
_DOUBTFUL_MODULES = {"site", "subprocess", "importlib", "runpy", "pip", "pkg_resources", "imp"}
_IMPORT = re.compile(
    r"(?:^|[;:])[ \t]*"
    r"(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+([^\n#;]*)|import[ \t]+([^\n#;]+))",
    re.MULTILINE,
)
_DOTTED = re.compile(r"\w+(\.\w+)*")
_DOUBTFUL_NAMES = {"exec", "eval", "__import__", "exit", "quit"}


@dataclass(frozen=True)
class Imports:
    """Top-level names of the modules that a program imports."""

    always: frozenset[str] = frozenset()
    sometimes: frozenset[str] = frozenset()


def read_imports(text: str, package: str, read_module: ReadModule) -> Imports | None:
    """The imports of a program and of its own modules; None if it cannot be parsed.

    `package` is the dotted name of the package that the program is a module of, if it is of one.
    """
    reader = _Reader(read_module)
    certain = reader.read(text, package)
    if certain is None:
        return None
    return Imports(frozenset(reader.always), frozenset(reader.others - reader.always))


def named_modules(text: str, package: str) -> set[str]:
    """The dotted names that a text seems to import: found by search, in a fraction of the time.

    `from a import b` names `a` and `a.b`, which may be a module.
    """
    found: set[str] = set()
    for base, names, plain in _IMPORT.findall(text):
        if plain:
            found.update(words[0] for part in plain.split(",") if (words := part.split()))
            continue
        absolute = _resolved(base, package)
        if absolute:
            found.add(absolute)
            parts = names.strip("() ").split(",")
            found.update(f"{absolute}.{words[0]}" for part in parts if (words := part.split()))
    return {name for name in found if _DOTTED.fullmatch(name)}


def _resolved(base: str, package: str) -> str:
    """`..model` within `pkg.sub` is `pkg.model`; empty if there is no such package."""
    name = base.lstrip(".")
    level = len(base) - len(name)
    if not level:
        return name
    parts = package.split(".") if package else []
    if level > len(parts):
        return ""
    kept = parts[: len(parts) - level + 1]
    return ".".join([*kept, *([name] if name else [])])


@dataclass
class _Reader:
    read_module: ReadModule
    always: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _certain: bool = True

    def read(self, text: str, package: str) -> bool | None:
        """Whether imports after this module still count as certain; None: it cannot be parsed."""
        tree = _parse(text)
        if tree is None:
            return None
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.others |= {name.partition(".")[0] for name in _absolute(node, package)}
        self._body(tree.body, package)
        # What is imported inside functions and conditions: for what the program is about.
        certain, self._certain = self._certain, False
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._follow(node, package)
        self._certain = certain
        return certain

    def _body(self, statements: list[ast.stmt], package: str) -> None:
        for statement in statements:
            match statement:
                case ast.Import() | ast.ImportFrom() if not _is_doubtful(statement):
                    if self._certain:
                        names = _absolute(statement, package)
                        self.always |= {name.partition(".")[0] for name in names}
                        self._follow(statement, package)
                case ast.Try(handlers=[]):
                    self._body(statement.body + statement.finalbody, package)
                case _:
                    if _is_doubtful(statement):
                        self._certain = False

    def _follow(self, node: ast.Import | ast.ImportFrom, package: str) -> None:
        for name in _candidates(node, package):
            parts = name.split(".")
            for depth in range(1, len(parts) + 1):
                self._module(".".join(parts[:depth]))

    def _module(self, name: str) -> None:
        if name in self._seen or len(self._seen) >= _MOST_MODULES:
            return
        if name.partition(".")[0] in sys.stdlib_module_names:
            return
        self._seen.add(name)
        found = self.read_module(name)
        if found is None:
            return
        text, is_package = found
        if self.read(text, name if is_package else name.rpartition(".")[0]) is None:
            self._certain = False


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _absolute(node: ast.Import | ast.ImportFrom, package: str) -> set[str]:
    """The modules that a statement names; of relative ones only those of a known package."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    base = _base(node, package)
    return {base} if base else set()


def _candidates(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    """Also `from package import module`, where the last name may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = _base(node, package)
    if base:
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _base(node: ast.ImportFrom, package: str) -> str:
    return _resolved("." * node.level + (node.module or ""), package)


def _is_doubtful(node: ast.AST) -> bool:
    return any(_is_doubtful_use(each) for each in ast.walk(node))


def _is_doubtful_use(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return module in _DOUBTFUL_MODULES or _is_doubtful_name(module, name)
        case ast.Name(id=name):
            return name in _DOUBTFUL_NAMES
        case ast.Import(names=aliases):
            # Under another name its use would not be seen.
            hidden = _DOUBTFUL_MODULES | _DOUBTFUL_OF.keys()
            return any(alias.asname and alias.name in hidden for alias in aliases)
        case ast.ImportFrom(module=str(module), names=aliases):
            taken = {alias.name for alias in aliases}
            return module.partition(".")[0] in _DOUBTFUL_MODULES or any(
                _is_doubtful_name(module, name) for name in taken
            )
        case ast.Raise():
            return True
    return False


def _is_doubtful_name(module: str, name: str) -> bool:
    replaces = module == "os" and name.startswith(("exec", "spawn", "posix_spawn"))
    return replaces or name in _DOUBTFUL_OF.get(module, ())
