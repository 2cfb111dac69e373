"""Fetches what a cluster is of from Debian, and builds Kubernetes: the folder that `get` keeps.

Debian 12 has the whole source of Kubernetes 1.20.2, but no binaries of its servers. Everything else
comes from binary packages, which are unpacked into a folder, not installed. The folder has
  bin/      kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy
  root/     etcd, containerd, runc, the CNI plugins, kubectl, busybox, iptables, below usr/
  version   the version of Debian's source package, and the seconds that `get` took
Its name ends with a hash of this file, so a change of the recipe builds anew.
"""
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

VERSION = "1.20.2"
SERVERS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"]
COMPILER = ["golang-1.19-go", "golang-1.19-src", "golang-github-modern-go-reflect2-dev"]
PROGRAMS = ["etcd-server", "containerd", "runc", "containernetworking-plugins", "kubernetes-client",
            "busybox-static", "iptables", "conntrack", "libxtables12", "libip4tc2", "libip6tc2",
            "libnftnl11", "libmnl0", "libnetfilter-conntrack3", "libnfnetlink0"]
NOT_KEPT = ["usr/share", "etc", "lib"]  # of root/: manuals, completions, units
STAMPS = {"gitVersion": "v" + VERSION, "gitMajor": "1", "gitMinor": "20", "gitTreeState": "clean",
          "gitCommit": "debian", "buildDate": "2021-01-13T00:00:00Z"}


def cache_folder():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "sluice"


def folder():
    """Returns where the programs lie, or will lie."""
    recipe = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]
    return cache_folder() / f"kubernetes-{VERSION}-{recipe}"


def run(*command, **options):
    subprocess.run(list(map(str, command)), check=True, **options)


class Build:
    """One build in a folder beside the final one, which appears whole or not at all."""

    def __init__(self, at):
        self.at = at
        self.begun = time.monotonic()
        self.debs = at / "debs"
        self.tree = at / "gopath/src/k8s.io/kubernetes"
        self.go = at / "go"
        for name in ("debs", "go", "root", "bin", "apt/lists/partial", "apt/cache/archives/partial"):
            (at / name).mkdir(parents=True)
        self.tree.mkdir(parents=True)

    def say(self, what):
        print(f"  {time.monotonic() - self.begun:4.0f} s  {what}", flush=True)

    def configure_apt(self):
        """Gives apt lists of its own, so that the machine's sources stay as they are."""
        listed = subprocess.run(["apt-get", "indextargets", "Created-By: Packages", "--format",
                                 "$(CODENAME) $(COMPONENT) $(REPO_URI)"],
                                capture_output=True, text=True, check=True).stdout.split("\n")
        mirrors = [line.split()[2] for line in listed if line.startswith("bookworm main ")]
        mirror = mirrors[0] if mirrors else "http://deb.debian.org/debian/"
        signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
        (self.at / "apt/sources").write_text(
            "".join(f"{kind} {signed} {mirror} bookworm main\n" for kind in ("deb", "deb-src")))
        (self.at / "apt/conf").write_text(
            f'Dir::Etc::SourceList "{self.at}/apt/sources";\nDir::Etc::SourceParts "/dev/null";\n'
            f'Dir::State::Lists "{self.at}/apt/lists";\nDir::Cache "{self.at}/apt/cache";\n'
            'APT::Sandbox::User "root";\n')
        return os.environ | {"APT_CONFIG": str(self.at / "apt/conf")}

    def fetch(self):
        apt = {"env": self.configure_apt(), "cwd": self.debs, "stdout": subprocess.DEVNULL}
        run("apt-get", "update", "-q", **apt)
        run("apt-get", "download", "-q", *COMPILER, *PROGRAMS, **apt)
        run("apt-get", "source", "-q", "--download-only", "kubernetes", **apt)
        [description] = self.debs.glob("kubernetes_*.dsc")
        self.version = description.stem.removeprefix("kubernetes_")
        if VERSION not in self.version:
            sys.exit(f"cluster: Debian's Kubernetes is {self.version} now; this recipe is of {VERSION}")
        self.say(f"downloaded {sum(f.stat().st_size for f in self.debs.iterdir()) >> 20} MiB")

    def unpack(self):
        for package in self.debs.glob("*.deb"):
            into = self.go if package.name.startswith("golang") else self.at / "root"
            run("dpkg", "-x", package, into)
        [source] = self.debs.glob("kubernetes_*.orig.tar.gz")
        run("tar", "-xzf", source, "--strip-components=1", "-C", self.tree)
        root = self.at / "root"
        shutil.copy2(root / "bin/busybox", root / "usr/bin/busybox")
        for name in ("iptables", "iptables-save", "iptables-restore",
                     "ip6tables", "ip6tables-save", "ip6tables-restore"):
            link = root / "usr/sbin" / name  # Debian makes these when it configures the package
            link.unlink(missing_ok=True)
            link.symlink_to("xtables-nft-multi")
        self.say("unpacked")

    def patch(self):
        """Makes the old tree fit a newer compiler, and pods go soon after they have ended."""
        vendored = self.tree / "vendor/github.com/modern-go/reflect2"
        shutil.rmtree(vendored)  # with Go 1.18 and later its map iterator reads wild memory
        shutil.copytree(self.go / "usr/share/gocode/src/github.com/modern-go/reflect2", vendored)
        reports = self.tree / "pkg/kubelet/status/status_manager.go"
        before = reports.read_text()
        after = before.replace("const syncPeriod = 10 * time.Second", "const syncPeriod = time.Second")
        if after == before:
            sys.exit("cluster: the kubelet's period of status reports is not where it was")
        reports.write_text(after)

    def compile(self, *arguments):
        environment = os.environ | {
            "GOROOT": str(self.go / "usr/lib/go-1.19"), "GOPATH": str(self.at / "gopath"),
            "GOCACHE": str(self.at / "gocache"), "GO111MODULE": "off", "GOPROXY": "off",
            "GOFLAGS": "", "CGO_ENABLED": "0"}
        run(self.go / "usr/lib/go-1.19/bin/go", "build", *arguments, cwd=self.tree, env=environment)
        return environment

    def described_packages(self):
        """Yields the packages whose types the API's description has, as import paths."""
        staged = [p for p in (self.tree / "vendor/k8s.io").iterdir() if p.is_symlink()]
        own = [self.tree / name for name in ("pkg", "cmd", "plugin")]
        for top in own + [p for p in staged if p.name not in ("code-generator", "sample-apiserver")]:
            for source in top.rglob("*.go"):
                if source.name.endswith("_test.go") or "+k8s:openapi-gen=" not in source.read_text():
                    continue
                yield "k8s.io/kubernetes/" + str(source.parent.relative_to(self.tree))

    def describe(self):
        """Generates the one source file that the package lacks: the description of the API."""
        generator = self.at / "openapi-gen"
        environment = self.compile("-o", generator, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
        header = "vendor/k8s.io/code-generator/hack/boilerplate.go.txt"
        run(generator, "--logtostderr", "-i", ",".join(sorted(set(self.described_packages()))),
            "-p", "k8s.io/kubernetes/pkg/generated/openapi", "-O", "zz_generated.openapi",
            "-h", header, "-r", self.at / "violations", cwd=self.tree, env=environment)
        self.say("generated the description of the API")

    def build(self):
        stamps = [f"-X k8s.io/kubernetes/vendor/k8s.io/{package}.{name}={value}"
                  for package in ("component-base/version", "client-go/pkg/version")
                  for name, value in STAMPS.items()]
        self.compile("-trimpath", "-ldflags", " ".join(["-s", "-w", *stamps]), "-o",
                     f"{self.at}/bin/", *[f"./cmd/{name}" for name in SERVERS])
        self.say("built")

    def tidy(self):
        for name in ["debs", "go", "gopath", "gocache", "apt"]:
            shutil.rmtree(self.at / name)
        for name in ["openapi-gen", "violations"]:
            (self.at / name).unlink()
        for name in NOT_KEPT:
            shutil.rmtree(self.at / "root" / name, ignore_errors=True)
        (self.at / "version").write_text(f"{self.version}\n{time.monotonic() - self.begun:.0f} s\n")


def get():
    """Makes the folder unless it is there; returns it. Of several callers one builds."""
    wanted = folder()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with open(wanted.parent / "kubernetes.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (wanted / "version").is_file():
            return wanted
        print(f"cluster: builds Kubernetes {VERSION} from Debian's source, once: 5 minutes on 2 cores",
              flush=True)
        part = wanted.with_name(wanted.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        work = Build(part)
        for step in (work.fetch, work.unpack, work.patch, work.describe, work.build, work.tidy):
            step()
        for older in wanted.parent.glob("kubernetes-*"):
            if older != part:
                shutil.rmtree(older)
        part.rename(wanted)
    return wanted
