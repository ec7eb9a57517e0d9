"""The image fits the manifests: the user it runs as, and where it holds the launcher."""

from __future__ import annotations

import re
from pathlib import Path

from mooring.install import InstallSettings
from mooring.install.deployment import deployment
from mooring.install.names import LAUNCHER_IN_IMAGE

IMAGES = Path(__file__).parents[3] / "images"
POD = deployment(InstallSettings())["spec"]["template"]["spec"]


def test_the_image_runs_as_the_user_that_the_deployment_names() -> None:
    (user,) = re.findall(r"^USER (\S+)$", (IMAGES / "Dockerfile").read_text(), flags=re.MULTILINE)
    context = POD["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["runAsUser"] != 0


def test_the_launcher_is_where_init_containers_copy_it_from() -> None:
    assert LAUNCHER_IN_IMAGE in (IMAGES / "fill.py").read_text()
