"""What is made of findings: their order, what was looked at, JSON, HTML, patches."""

from __future__ import annotations

import json

from building import JOB, member, run, use

from mooring.doctor import diagnose_run
from mooring.doctor.html import render_html
from mooring.doctor.registry import NODE_CHECKS, RUN_CHECKS
from mooring.doctor.remedies import fix, patches

WITH_THREADS = JOB.replace("  command: [python]", "  command: [python]\n  threads: 80  # by hand")


def test_a_healthy_run_has_no_findings_and_says_what_was_looked_at() -> None:
    servers = [member(f"ps-{i}", use(received_bytes=10**8)) for i in range(2)]
    found = diagnose_run(run(*servers, member("worker-0"), member("worker-1")))
    assert found.findings == ()
    assert [one.id for one in found.checked] == list(RUN_CHECKS)


def test_the_worst_comes_first() -> None:
    throttled = use(throttled_periods=100, periods=100, throttled_s=9.0)
    found = diagnose_run(
        run(
            member("worker-0", threads_told=80),
            member("ps-0", throttled, seen_cpus={0: 1}),
            job=WITH_THREADS,
        )
    )
    assert [one.id for one in found.findings] == ["cpu-throttled", "cpu-threads"]
    weights = [one.found.weight for one in found.findings]
    assert weights == sorted(weights, reverse=True)


def test_json_and_html_carry_all_of_a_finding() -> None:
    found = diagnose_run(run(member("worker-0", threads_told=80), job=WITH_THREADS))
    document = json.loads(json.dumps(found.document()))
    [finding] = document["findings"]
    assert finding["id"] == "cpu-threads"
    assert {"what", "value", "unit", "source", "members"} == set(finding["evidence"][0])
    assert finding["remedy"]["changes"] == [
        {"path": ["spec", "threads"], "value": "auto", "remove": False}
    ]
    page = render_html(found, patches(found, WITH_THREADS, "job.yaml"))
    assert "cpu-threads" in page
    assert "+  threads: auto  # by hand" in page


def test_a_fix_keeps_comments_and_leaves_a_valid_job() -> None:
    found = diagnose_run(run(member("worker-0", threads_told=80), job=WITH_THREADS))
    fixed = fix(WITH_THREADS, found.findings, "job.yaml")
    assert fixed.text == WITH_THREADS.replace("threads: 80", "threads: auto")
    assert [one.id for one in fixed.applied] == ["cpu-threads"]


def test_every_check_has_a_page() -> None:
    for check in [*RUN_CHECKS.values(), *NODE_CHECKS.values()]:
        assert check.page.why
        assert check.page.measured
        assert check.page.fix
