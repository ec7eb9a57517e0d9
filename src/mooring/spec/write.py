"""Plain data to YAML text that reads back as exactly the same data."""

from __future__ import annotations

from typing import Any

import yaml

#: Line breaks of Unicode, which PyYAML folds away unless the text is in double quotes.
_BREAKS = frozenset("\x85\u2028\u2029\ufeff")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if not _BREAKS.isdisjoint(text) else "|" if "\n" in text.strip() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(data: Any) -> str:
    """Block style, in the order of the data, Unicode kept readable."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
