"""Whatever a hostile tenant does, the good one's jobs are admitted, stopped and finished as ever.

On a real API server, with the real operator under its own account and no webhook: what that would
refuse is stored. The hostile tenant has Kubernetes' own role `edit` in its namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube.cluster.client import ApiError
from kube.cluster.control_plane import ControlPlane
from kube.operator import jobs_path
from kube.tenants.deeds import DEEDS, Deed
from kube.tenants.world import LONGEST_PAUSE_S, MOST_GROWTH_BYTES, STEADY, World
from kube.tenants.world import world as make_world

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane) -> Iterator[World]:
    with make_world(control_plane) as made:
        yield made


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_the_good_tenant_does_not_notice(world: World, deed: Deed) -> None:
    deed(world)
    world.good_jobs_live_as_ever()
    world.clear()
    assert world.operator.running
    grown = world.rss_bytes() - world.rss_before_bytes
    print(
        f"\n{deed.__name__}: good jobs {world.took_s[-1]:.1f} s (alone {world.took_s[0]:.1f}), "
        f"operator +{grown / 2**20:.0f} MiB, longest pause {world.pauses.longest_s:.2f} s"
    )
    assert grown < MOST_GROWTH_BYTES
    assert world.pauses.longest_s < LONGEST_PAUSE_S
    assert world.operator.defects == []


def test_the_hostile_tenant_has_no_rights_in_the_other_namespace(world: World) -> None:
    """Else the above would show nothing."""
    for path in (
        jobs_path(world.good, STEADY),
        f"/api/v1/namespaces/{world.good}/secrets",
        f"/api/v1/namespaces/{world.good}/pods",
    ):
        with pytest.raises(ApiError) as refused:
            world.mallory.get(path)
        assert refused.value.status == 403
