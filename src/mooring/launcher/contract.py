"""The contract: the one JSON document that tells a launcher everything.

A runtime writes it and a launcher of possibly another version reads it, so unknown keys are ignored
and every key that is missing or wrong is named in the error.
"""

from __future__ import annotations

import json
import re

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

VERSION = 1


class Peer:
    """A member of the job as this one reaches it."""

    def __init__(self, member: str, host: str, ports: list[int]) -> None:
        self.member = member
        self.host = host
        self.ports = ports


class Contract:
    """The checked document, one attribute a key."""

    def __init__(self, document: dict[str, Any]) -> None:
        take = _Taker(document)
        version = take("version", _integer)
        if version != VERSION:
            raise LaunchError(
                "contract: version is %r; this launcher knows version %d" % (version, VERSION)
            )
        self.run: str = take("run", _string, "")
        self.job: str = take("job", _string, "")
        self.member: str = take("member", _string)
        self.role: str = take("role", _string, "")
        self.index: int = take("index", _integer, 0)
        self.epoch: int = take("epoch", _integer, 0)
        self.attempt: int = take("attempt", _integer, 0)
        self.argv: list[str] = take("argv", _strings, [])
        self.env: dict[str, str] = take("env", _environment, {})
        self.cwd: str = take("cwd", _string)
        self.gate: str = take("gate", _one_of("stdin", "open", "meeting"), "open")
        self.cgroup_procs: list[str] = take("cgroup_procs", _strings, [])
        self.netns: str | None = take("netns", _or_null(_string), None)
        self.hosts_file: str | None = take("hosts_file", _or_null(_string), None)
        self.cpus: list[int] | None = take("cpus", _or_null(_integers), None)
        self.exclusive: bool = take("exclusive", _boolean, False)
        self.cells: list[int] = take("cells", _integers, [])
        self.cpu_millis: int | None = take("cpu_millis", _or_null(_positive), None)
        self.memory_bytes: int | None = take("memory_bytes", _or_null(_positive), None)
        self.gpus: list[int] | None = take("gpus", _or_null(_integers), None)
        self.threads: int | None = take("threads", _threads, None)
        self.share_threads: int | None = take("share_threads", _or_null(_positive), None)
        self.sharers: int = take("sharers", _positive, 1)
        self.resolve_timeout_s: float = take("resolve_timeout_s", _seconds, 60.0)
        self.log_path: str = take("log_path", _string)
        self.sample_path: str = take("sample_path", _string)
        self.sample_interval_s: float = take("sample_interval_s", _seconds, 1.0)
        self.grace_s: float = take("grace_s", _seconds, 10.0)
        self.looks: bool = take("looks", _boolean, True)
        self.look_sharers: int = take("look_sharers", _positive, self.sharers)
        self.watcher: int | None = take("watcher", _or_null(_positive), None)

        # (local rank, environment) of each process; one process when nothing is said.
        self.processes: list[tuple[int, dict[str, str]]] = []
        for item in take.each("processes", [{"local_rank": 0}]):
            self.processes.append((item("local_rank", _integer), item("env", _environment, {})))
        ranks = [rank for rank, _ in self.processes]
        if len(set(ranks)) != len(ranks):
            raise LaunchError("contract: processes: a local_rank appears twice: %r" % (ranks,))

        self.peers: list[Peer] = []
        for item in take.each("peers", []):
            self.peers.extend(_peers(item))

        steps = take.inside("steps") or _Taker({}, "steps.")
        self.step_source: str = steps("source", _one_of("auto", "sdk", "regex"), "sdk")
        self.step_pattern: str | None = steps("pattern", _or_null(_string), None)
        self.examples_per_step: int | None = steps("examples_per_step", _or_null(_positive), None)
        if self.step_source == "regex":
            _check_pattern(self.step_pattern)

        meeting = take.inside("meeting") or _Taker({}, "meeting.")
        self.meeting_host: str = meeting("host", _string, "")
        self.meeting_port: int = meeting("port", _integer, 0)
        self.meeting_leads: bool = meeting("leads", _boolean, False)
        self.meeting_members: int = meeting("members", _positive, 1)
        if self.gate == "meeting" and not (self.meeting_host and self.meeting_port):
            raise LaunchError("contract: meeting has no host or port, but the gate is there")
        self.meeting_token: str = meeting("token", _string, "")
        if self.gate == "meeting" and not self.meeting_token:
            raise LaunchError("contract: meeting.token is empty: anyone could come in")
        self.echo: bool = take("echo", _boolean, False)

        agent = take.inside("agent")
        self.agent_port: int | None = None
        self.agent_token = ""
        if agent is not None:
            self.agent_port = agent("port", _integer)
            self.agent_token = agent("token", _string)
            if not self.agent_token:
                raise LaunchError("contract: agent.token is empty: anyone could run commands")
        elif not self.argv:
            raise LaunchError("contract: argv is empty and there is no agent: nothing to run")
        if agent is None and not self.processes:
            raise LaunchError("contract: processes is empty: nothing to run")


def _peers(item: _Taker) -> list[Peer]:
    """One peer, or with `count` so many: {} stands for the index, which begins at `first`."""
    member, host = item("member", _string), item("host", _string)
    ports = item("ports", _integers, [])
    count: int | None = item("count", _or_null(_positive), None)
    if count is None:
        return [Peer(member, host, ports)]
    first: int = item("first", _integer, 0)
    indexes = [str(index) for index in range(first, first + count)]
    return [Peer(member.replace("{}", i), host.replace("{}", i), ports) for i in indexes]


def read_document(path: str) -> dict[str, Any]:
    """The raw JSON object, so that an error in it can still be written to its sample file."""
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read().decode("utf-8"))
    except OSError as error:
        raise LaunchError("contract %s: %s" % (path, error.strerror)) from error
    except (ValueError, RecursionError) as error:
        raise LaunchError("contract %s: not JSON: %s" % (path, error)) from error
    if not isinstance(document, dict):
        raise LaunchError("contract %s: not a JSON object" % path)
    return document


def _check_pattern(pattern: str | None) -> None:
    if pattern is None:
        raise LaunchError("contract: steps.pattern is null; accepted: a regular expression")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise LaunchError(
            "contract: steps.pattern is %s: %s" % (json.dumps(pattern), error)
        ) from error


class _Taker:
    """Takes keys out of an object; an error names the key's whole path."""

    REQUIRED = object()

    def __init__(self, source: dict[str, Any], prefix: str = "") -> None:
        self._source = source
        self._prefix = prefix

    def __call__(self, key: str, check: Callable[[Any], Any], default: Any = REQUIRED) -> Any:
        if key not in self._source:
            if default is _Taker.REQUIRED:
                raise LaunchError("contract: %s%s is missing" % (self._prefix, key))
            return default
        value = self._source[key]
        try:
            return check(value)
        except _Wrong as wrong:
            raise LaunchError(
                "contract: %s%s is %s; accepted: %s"
                % (self._prefix, key, json.dumps(value)[:80], wrong)
            ) from None

    def inside(self, key: str) -> _Taker | None:
        value = self(key, _or_null(_object), None)
        return None if value is None else _Taker(value, "%s%s." % (self._prefix, key))

    def each(self, key: str, default: list[Any]) -> list[_Taker]:
        items = self(key, _objects, default)
        return [
            _Taker(item, "%s%s[%d]." % (self._prefix, key, place))
            for place, item in enumerate(items)
        ]


class _Wrong(Exception):
    """Carries what would have been accepted."""


def _string(value: Any) -> Any:
    if not isinstance(value, str) or "\0" in value:
        raise _Wrong("a string without NUL")
    return value


def _integer(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _Wrong("an integer >= 0")
    return value


def _positive(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _Wrong("an integer >= 1")
    return value


def _seconds(value: Any) -> Any:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
        raise _Wrong("a number of seconds >= 0")
    return float(value)


def _boolean(value: Any) -> Any:
    if not isinstance(value, bool):
        raise _Wrong("true or false")
    return value


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise _Wrong("an object")
    return value


def _objects(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _Wrong("a list of objects")
    return value


def _strings(value: Any) -> Any:
    if not isinstance(value, list):
        raise _Wrong("a list of strings")
    return [_string(item) for item in value]


def _integers(value: Any) -> Any:
    if not isinstance(value, list):
        raise _Wrong("a list of integers >= 0")
    return [_integer(item) for item in value]


def _environment(value: Any) -> Any:
    for name, text in _object(value).items():
        if not name or "=" in name or "\0" in name:
            raise _Wrong("names without '=' and NUL")
        _string(text)
    return value


def _threads(value: Any) -> Any:
    if value == "auto":
        return None
    try:
        return _positive(value)
    except _Wrong:
        raise _Wrong('"auto" or an integer >= 1') from None


def _one_of(*accepted: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value not in accepted:
            raise _Wrong(" or ".join(accepted))
        return value

    return check


def _or_null(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if value is None:
            return None
        try:
            return check(value)
        except _Wrong as wrong:
            raise _Wrong("%s, or null" % wrong) from None

    return checked
