"""Kubernetes built from Debian's source package, into the cache: what `make kube` does.

Everything happens in one folder beside the cache's; the finished programs are moved into place in
one rename, so a cache is whole or not there. A build that was interrupted goes on where it was:
the downloads, the unpacked source and Go's compiled packages are kept until the end. Nothing is
installed on the machine and root is not needed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kube.cluster import binaries
from kube.cluster.debian import Debian, NotAvailable
from kube.cluster.progress import Progress

GO = "golang-1.19"
BUILD_PACKAGES = (f"{GO}-go", f"{GO}-src", "golang-github-modern-go-reflect2-dev")
RUN_PACKAGES = ("etcd-server", "containerd", "runc", "containernetworking-plugins")
COMPILED = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
    "kubemark",
)
COPIED = {
    "etcd": "usr/bin/etcd",
    "containerd": "usr/bin/containerd",
    "containerd-shim-runc-v2": "usr/bin/containerd-shim-runc-v2",
    "ctr": "usr/bin/ctr",
    "runc": "usr/sbin/runc",
}
NEEDED_BYTES = 6 * 2**30


def build(target: Path | None = None) -> Path:
    """The folder with all programs; returns at once when they are there."""
    target = target or binaries.cache_folder()
    if binaries.is_complete(binaries.Binaries(target)):
        return target
    work = target.with_name(f"{target.name}.building")
    work.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(work).free
    if free < NEEDED_BYTES:
        raise NotAvailable(f"{work} has {free / 2**30:.1f} GiB free; the build needs 6")
    with _alone(work):
        if not binaries.is_complete(binaries.Binaries(target)):
            _Build(work).run(target)
        shutil.rmtree(work)
    return target


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Only one build at a time; a second one waits, and then finds the work done."""
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another build runs in {work}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
            work.mkdir(parents=True, exist_ok=True)
        yield


@dataclass(frozen=True)
class _Build:
    work: Path

    def run(self, target: Path) -> None:
        debian = Debian(self.work / "debian")
        out = self.work / "out"
        if not (self.work / "unpacked").exists():
            _say("downloading Go, Kubernetes' source and containerd from Debian (180 MB)")
            debian.refresh()
            debian.unpack(BUILD_PACKAGES + RUN_PACKAGES, self.root)
            shutil.rmtree(self.source, ignore_errors=True)
            debian.unpack_source("kubernetes", self.source)
            self._replace_reflect2()
            (self.work / "unpacked").touch()
        if not self.openapi.exists():
            self._generate_openapi()
        self._compile(out)
        self._copy(out)
        if target.exists():
            shutil.rmtree(target)
        out.rename(target)
        _say(f"Kubernetes {binaries.BUILT_VERSION} is in {target}")

    @property
    def root(self) -> Path:
        return self.work / "root"

    @property
    def source(self) -> Path:
        # GOPATH mode: the source has a vendor folder that module mode refuses.
        return self.work / "go" / "src" / "k8s.io" / "kubernetes"

    @property
    def openapi(self) -> Path:
        return self.source / "pkg/generated/openapi/zz_generated.openapi.go"

    def _replace_reflect2(self) -> None:
        """The vendored 1.0.1 panics on JSON with Go 1.18 and later; Debian's 1.0.2 does not."""
        new = self.root / "usr/share/gocode/src/github.com/modern-go/reflect2"
        old = self.source / "vendor/github.com/modern-go/reflect2"
        for pattern in ("*.go", "*.s"):
            for file in old.glob(pattern):
                file.unlink()
            for file in new.glob(pattern):
                if not file.name.endswith("_test.go"):
                    shutil.copy(file, old)

    def _generate_openapi(self) -> None:
        """The API's descriptions, which the archive leaves out and the API server imports."""
        _say("generating the API's descriptions")
        generator = self.work / "openapi-gen"
        self._go("build", "-o", str(generator), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
        subprocess.run(
            [
                generator,
                "--logtostderr",
                f"--input-dirs={','.join(self._described_packages())}",
                "--output-package=k8s.io/kubernetes/pkg/generated/openapi",
                "--output-file-base=zz_generated.openapi",
                "--go-header-file=vendor/k8s.io/code-generator/hack/boilerplate.go.txt",
                f"--report-filename={self.work / 'violations'}",
                f"--output-base={self.work / 'go' / 'src'}",
            ],
            cwd=self.source,
            env=self._environment,
            check=True,
        )

    def _described_packages(self) -> list[str]:
        found = set()
        for top in ("cmd", "pkg", "plugin", "staging/src/k8s.io"):
            for file in (self.source / top).rglob("*.go"):
                path = file.relative_to(self.source)
                named = str(path)
                if re.search(
                    r"staging/src/k8s.io/(code-generator|sample-apiserver)/|/_examples/|/testdata/"
                    r"|_test\.go$|zz_generated",
                    named,
                ):
                    continue
                if b"+k8s:openapi-gen=" in file.read_bytes():
                    found.add(str(path.parent).replace("staging/src/", "vendor/", 1))
        return [f"k8s.io/kubernetes/{each}" for each in sorted(found)]

    def _compile(self, out: Path) -> None:
        out.mkdir(exist_ok=True)
        pause = Path(__file__).with_name("pause.go")
        self._go("build", "-trimpath", "-ldflags=-s -w", "-o", str(out / "pause"), str(pause))
        version = binaries.BUILT_VERSION
        major, minor, _ = version.removeprefix("v").split(".")
        said = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags = ["-s", "-w"]
        for package in ("client-go/pkg/version", "component-base/version"):
            for key, value in said.items():
                flags.append(f"-X k8s.io/kubernetes/vendor/k8s.io/{package}.{key}={value}")
        commands = [f"./cmd/{name}" for name in COMPILED]
        # -tags providerless leaves the clouds' libraries out.
        common = ["-tags=providerless", "-trimpath"]
        listed = self._go("list", "-deps", *common[:1], *commands).splitlines()
        progress = Progress(len(set(listed)), self.work / "compiled.txt")
        with subprocess.Popen(
            [
                *(self._go_program, "build", "-v", *common),
                *(f"-ldflags={' '.join(flags)}", "-o", f"{out}/", *commands),
            ],
            cwd=self.source,
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            with progress:
                told = [line for line in process.stderr if not progress.step(line)]
        if process.returncode != 0:
            raise NotAvailable(f"go build failed:\n{''.join(told)}")

    def _copy(self, out: Path) -> None:
        for name, path in COPIED.items():
            shutil.copy(self.root / path, out / name)
        (out / "cni").mkdir(exist_ok=True)
        for name in binaries.CNI_PLUGINS:
            shutil.copy(self.root / "usr/lib/cni" / name, out / "cni" / name)

    @property
    def _go_program(self) -> str:
        return str(self._environment["GOROOT"] + "/bin/go")

    @property
    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GO")}
        return {
            **kept,
            "GOROOT": str(self.root / f"usr/lib/{GO.replace('golang', 'go')}"),
            "GOPATH": str(self.work / "go"),
            "GOCACHE": str(self.work / "compiled"),
            "GO111MODULE": "off",
            "GOFLAGS": "",
            "CGO_ENABLED": "0",
        }

    def _go(self, *arguments: str) -> str:
        answer = subprocess.run(
            [self._go_program, *arguments],
            cwd=self.source,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise NotAvailable(f"go {arguments[0]} failed:\n{answer.stderr}")
        return answer.stdout


def _say(text: str) -> None:
    print(f"kubernetes: {text}", file=sys.stderr, flush=True)
