"""Texts that would do harm wherever somebody hands them to a shell, a template or a parser."""

from __future__ import annotations

from pathlib import Path


def hostile(mark: Path) -> list[str]:
    """200 texts. Who executes one of them makes the file `mark`."""
    touch = f"touch {mark}"
    shells = [
        f"$({touch})",
        f"`{touch}`",
        f"; {touch}",
        f"| {touch}",
        f"&& {touch} #",
        f"|| {touch}",
        f"\n{touch}\n",
        f"' ; {touch} ; '",
        f'" ; {touch} ; "',
        f"${{IFS}}$({touch})",
        f"$(({touch}))",
        f">{mark}",
        f"<({touch})",
        f"& {touch} &",
        f"-oProxyCommand={touch}",
        f"() {{ :;}}; {touch}",
    ]
    templates = [
        f"{{{{ cycler.__init__.__globals__.os.popen('{touch}').read() }}}}",
        f"{{% import os %}}{{{{ os.system('{touch}') }}}}",
        "{0.__class__.__mro__}",
        "%(name)s %n %s %x",
        "{job}{role}{index}",
        "${HOME} $HOME $$ $(HOME) $(MOORING_CONTRACT)",
        f"__import__('os').system('{touch}')",
        f"!!python/object/apply:os.system ['{touch}']",
        "*anchor",
        "&anchor x",
        "<<: *x",
        "- a\n- b",
        "key: value",
        "'''",
        '"""',
        "\\",
        "\\u0000",
        '{"a": 1}',
        "]]>",
        "<script>alert(1)</script>",
        "<!--",
        "../../../../etc/passwd",
        "/etc/shadow",
        "file:///etc/passwd",
        "~root",
        "..",
        ".",
        "-",
        "--help",
        "--kubeconfig=/etc/shadow",
        "-rf",
        "/",
        "//",
        "a/../b",
        "%2e%2e%2f",
        "?x=1#y",
        "x?dryRun=All",
        "x&fieldManager=other",
        "a b",
        "\ttab",
        "line\r\nInjected-Header: yes",
        "\x1b[2J\x1b[31mred",
        "\u202egnp.exe",
        "\u200b",
        "ｆｕｌｌ",
        "é́́",
        "𝕏",
        "🦀",
        "ـقطار",
        "null",
        "true",
        "0x10",
        "1e309",
        "NaN",
        "-1",
        "A" * 4000,
        "a." * 100,
        "(a+)+$",
        "'; DROP TABLE jobs; --",
        "= cmd|' /C calc'!A0",
    ]
    found = shells + templates
    # Each again within other text, as a name, a path or an address would hold it.
    for around in ("x{}y", "/data/{}", "http://{}/", "a,{},b"):
        found += [around.replace("{}", one) for one in shells + templates]
    unique = list(dict.fromkeys(found))
    assert len(unique) >= 200
    return unique[:200]
