"""One node of a test cluster: containerd, kubelet and kube-proxy in namespaces of their own.

A node has its own network (10.99.0.10 + its number, pods in 10.98.NUMBER.0/24) and its own /run,
/var/lib and /var/log, so that nodes of one machine share no file and no port. Its cgroup is
CLUSTER/nodeN, with its share of the machine's cores.
"""
import json
import os
import shutil
import subprocess

from kube import plane

TUNED = {"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10",
         "kernel/panic_on_oops": "1"}
OWN = ["/run", "/var/lib", "/var/log"]


def cores_of(index, count):
    """Returns the cpuset of node `index` (from 1) of `count`: disjoint, where there are enough."""
    cores = sorted(os.sched_getaffinity(0))
    share = cores[(index - 1) * len(cores) // count:index * len(cores) // count]
    return ",".join(map(str, share or cores))


class Node:
    def __init__(self, cluster, index, count, nvidia=None):
        self.cluster = cluster
        self.index = index
        self.count = count
        self.nvidia = nvidia  # a folder for its containers, or None
        self.name = f"node{index}"
        self.address = f"10.99.0.{10 + index}"
        self.pods = f"10.98.{index}.0/24"
        self.folder = cluster.state / self.name
        self.socket = self.folder / "containerd.sock"

    def inside(self):
        """Returns the words that run a command in this node's namespaces."""
        return ["nsenter", f"--target={self.cluster.processes.pid(self.name + '/spaces')}",
                "--net", "--mount", "--"]

    def run(self, *command):
        self.cluster.run(*self.inside(), *command)

    def ctr(self, *command):
        self.run(self.cluster.root / "usr/bin/ctr", "--address", self.socket, "-n", "k8s.io", *command)

    def start(self, name, command):
        binaries = f"{self.cluster.root}/usr/bin:{self.cluster.root}/usr/sbin"
        libraries = self.cluster.root / "usr/lib/x86_64-linux-gnu"
        environment = {"PATH": f"{binaries}:{os.environ['PATH']}",
                       "LD_LIBRARY_PATH": str(libraries), "XTABLES_LIBDIR": f"{libraries}/xtables"}
        self.cluster.processes.start(f"{self.name}/{name}", [*self.inside(), *command], environment)

    def up(self):
        """Starts the node; it is Ready some ten seconds later."""
        self.make_spaces()
        self.connect()
        self.start_containerd()
        self.start_kubelet()
        self.start_proxy()

    def make_spaces(self):
        """A process that does nothing holds the node's namespaces, whatever else of it dies."""
        self.cluster.processes.start(self.name + "/spaces", [
            "unshare", "--net", "--mount", "--propagation", "private",
            "bash", "-c", f"ip link set lo up && touch {self.folder}.made && exec sleep infinity"])
        self.cluster.processes.wait(self.name + "/spaces", "namespaces",
                                    (self.folder.with_name(self.name + ".made")).exists)
        for folder in OWN:
            own = self.folder / folder.strip("/")
            own.mkdir(parents=True)
            self.run("mount", "--bind", own, folder)
        self.run("mkdir", "-p", "/run/lock", "/run/netns")
        # The kubelet sets these of the whole machine, unless it finds them as it wants them.
        for path, value in TUNED.items():
            file = self.folder / path.replace("/", ".")
            file.write_text(value + "\n")
            self.run("mount", "--bind", file, f"/proc/sys/{path}")
        self.cluster.groups.make(self.name, cores_of(self.index, self.count))

    def connect(self):
        first = self.cluster.processes.pid(self.name + "/spaces")
        ip = self.cluster.ip
        ip("link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", first)
        ip("link", "set", self.name, "master", "cluster", "up")
        ip("route", "add", self.pods, "via", self.address)
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "route", "add", "default", "via", plane.ADDRESS)
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for other in range(1, self.count + 1):
            if other != self.index:
                self.run("ip", "route", "add", f"10.98.{other}.0/24", "via", f"10.99.0.{10 + other}")

    def start_containerd(self):
        network = {"cniVersion": "0.3.1", "name": "pods", "type": "bridge", "bridge": "pods",
                   "isGateway": True, "hairpinMode": True,
                   "ipam": {"type": "host-local", "subnet": self.pods, "dataDir": "/run/cni",
                            "routes": [{"dst": "0.0.0.0/0"}]}}
        (self.folder / "cni").mkdir()
        (self.folder / "cni/pods.conf").write_text(json.dumps(network))
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=self.folder, root=self.cluster.root,
                                            base=self.base_spec() if self.nvidia else ""))
        self.start("containerd", [self.cluster.root / "usr/bin/containerd", "-c", config])
        self.cluster.processes.wait(self.name + "/containerd", "its socket", self.socket.exists)
        self.ctr("images", "import", self.cluster.state / "pause.tar")

    def base_spec(self):
        """Writes what containers are made from; returns containerd's setting that names it."""
        own = self.folder / "nvidia"
        shutil.copytree(self.nvidia, own)
        own.chmod(0o777)
        made = subprocess.run([self.cluster.root / "usr/bin/ctr", "oci", "spec"], check=True,
                              capture_output=True)
        spec = json.loads(made.stdout)
        spec["mounts"].append({"destination": "/usr/local/nvidia", "type": "bind",
                               "source": str(own), "options": ["rbind", "rw"]})
        file = self.folder / "base.json"
        file.write_text(json.dumps(spec))
        return f'base_runtime_spec = "{file}"'

    def start_kubelet(self):
        authority = self.cluster.authority
        authority.sign(self.name, f"/O=system:nodes/CN=system:node:{self.name}",
                       [f"DNS:{self.name}", f"IP:{self.address}"])
        config = self.folder / "kubelet.json"
        config.write_text(json.dumps(self.kubelet_config()))
        self.start("kubelet", [
            self.cluster.bin / "kubelet", f"--config={config}",
            f"--kubeconfig={authority.kubeconfig(self.name)}",
            "--container-runtime=remote", f"--container-runtime-endpoint=unix://{self.socket}",
            f"--hostname-override={self.name}", f"--node-ip={self.address}"])

    def kubelet_config(self):
        pki = self.cluster.pki
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": self.address, "resolvConf": "",
            # There is no DNS; without an address of it, each Pod brings a warning.
            "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local",
            "authentication": {"x509": {"clientCAFile": f"{pki}/ca.crt"},
                               "webhook": {"enabled": True}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{pki}/{self.name}.crt", "tlsPrivateKeyFile": f"{pki}/{self.name}.key",
            "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.cluster.groups.name}/{self.name}",
            "enforceNodeAllocatable": [], "failSwapOn": False, "makeIPTablesUtilChains": False,
            # A test machine's disk may be nearly full.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%",
                             "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
            "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99}

    def start_proxy(self):
        config = self.cluster.authority.kubeconfig("proxy")
        self.start("kube-proxy", [
            self.cluster.bin / "kube-proxy", f"--kubeconfig={config}", "--proxy-mode=iptables",
            f"--cluster-cidr={plane.PODS}", f"--hostname-override={self.name}",
            # These are the machine's, not a network namespace's.
            "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s"])

    def cut(self, is_cut):
        """Drops every packet from and to the other machines, or no longer does."""
        tables = f"{self.cluster.root}/usr/sbin/iptables"
        libraries = f"{self.cluster.root}/usr/lib/x86_64-linux-gnu"
        for chain, side in (("INPUT", "-i"), ("OUTPUT", "-o"), ("FORWARD", "-i"), ("FORWARD", "-o")):
            self.run("env", f"LD_LIBRARY_PATH={libraries}", f"XTABLES_LIBDIR={libraries}/xtables",
                     tables, "-I" if is_cut else "-D", chain, side, "eth0", "-j", "DROP")


# restrict_oom_score_adj: a sandbox wants a score that only CAP_SYS_RESOURCE may give.
CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd.state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{root}/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      {base}
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{root}/usr/sbin/runc"
"""
