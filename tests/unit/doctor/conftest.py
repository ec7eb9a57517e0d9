"""All checks are registered before any test asks for one."""

import mooring.doctor  # noqa: F401
