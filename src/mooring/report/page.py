"""HTML pages from templates of the package: one environment, so that everything is escaped."""

from __future__ import annotations

from functools import cache

import jinja2

from mooring.model.amounts import duration, size
from mooring.report.text import number

#: The packages that have templates.
_PACKAGES = ("report", "doctor", "simulate")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PrefixLoader(
            {name: jinja2.PackageLoader(f"mooring.{name}", ".") for name in _PACKAGES}
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(size=size, number=number, duration=duration)
    return environment


def render_page(template: str, **values: object) -> str:
    """The page; `template` is `PACKAGE/NAME`, such as `report/report.html.j2`."""
    return _environment().get_template(template).render(**values)
