"""The control plane of a test cluster: etcd, the API server, and what of the rest is asked for.

Everything listens at 10.99.0.1 of the cluster's own network. A webhook's or a proxied service's
endpoint may be any address there, also of a process that is no Pod.
"""
import http.client
import ssl

ADDRESS = "10.99.0.1"
SERVER = f"https://{ADDRESS}:6443"
SERVICES = "10.96.0.0/16"
PODS = "10.98.0.0/16"
TOKEN = "sluice-test-cluster-admin"
# What objects alone need, without Pods that run.
OBJECTS = "garbagecollector,namespace,serviceaccount,serviceaccount-token"
ETCD = "http://127.0.0.1:2379"


def certify(authority):
    authority.create()
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    authority.sign("apiserver", "/CN=kube-apiserver",
                   ["DNS:" + n for n in names] + ["IP:127.0.0.1", f"IP:{ADDRESS}", "IP:10.96.0.1"])
    authority.sign("admin", "/O=system:masters/CN=admin")
    authority.sign("controller-manager", "/CN=system:kube-controller-manager")
    authority.sign("scheduler", "/CN=system:kube-scheduler")
    authority.sign("proxy", "/CN=system:kube-proxy")
    authority.service_account_keys()
    (authority.folder / "token").write_text(TOKEN)
    (authority.folder / "tokens").write_text(f'{TOKEN},token-admin,1,"system:masters"\n')


def answers(authority, path):
    """Whether the API server answers 200 at `path`."""
    context = ssl.create_default_context(cafile=authority.folder / "ca.crt")
    try:
        connection = http.client.HTTPSConnection(ADDRESS, 6443, context=context, timeout=5)
        connection.request("GET", path, headers={"Authorization": "Bearer " + TOKEN})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def start_etcd(cluster):
    peer = "http://127.0.0.1:2380"
    cluster.processes.start("etcd", [
        cluster.root / "usr/bin/etcd", "--data-dir", cluster.state / "etcd", "--unsafe-no-fsync",
        "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"default={peer}"])


def start_server(cluster, accounts, flags):
    pki = cluster.pki
    cluster.processes.start("apiserver", [
        cluster.bin / "kube-apiserver", f"--etcd-servers={ETCD}",
        f"--bind-address={ADDRESS}", f"--advertise-address={ADDRESS}", "--secure-port=6443",
        f"--client-ca-file={pki}/ca.crt", f"--token-auth-file={pki}/tokens",
        f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC", "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICES}",
        # Webhooks' services are reached at their endpoints: there may be no kube-proxy.
        "--enable-aggregator-routing=true",
        f"--service-account-key-file={pki}/accounts.pub",
        f"--service-account-signing-key-file={pki}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        # Without controllers no namespace gets the account that each Pod must have.
        *([] if accounts else ["--disable-admission-plugins=ServiceAccount"]), *flags])


def start_controllers(cluster, controllers):
    config = cluster.authority.kubeconfig("controller-manager")
    cluster.processes.start("controller-manager", [
        cluster.bin / "kube-controller-manager", f"--controllers={controllers}",
        *delegated(config), "--use-service-account-credentials=true",
        f"--service-account-private-key-file={cluster.pki}/accounts.key",
        f"--root-ca-file={cluster.pki}/ca.crt"])


def start_scheduler(cluster):
    config = cluster.authority.kubeconfig("scheduler")
    cluster.processes.start("scheduler", [cluster.bin / "kube-scheduler", *delegated(config)])


def delegated(config):
    return [f"--kubeconfig={config}", f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}", "--leader-elect=false", "--bind-address=127.0.0.1"]


def up(cluster, what, flags=()):
    """Starts the plane for `what`: api, controllers or nodes. Returns once it serves.

    `flags`: more of the API server's."""
    cluster.ip("link", "add", "cluster", "type", "bridge")
    cluster.ip("addr", "add", f"{ADDRESS}/24", "dev", "cluster")
    cluster.ip("link", "set", "cluster", "up")
    certify(cluster.authority)
    cluster.authority.kubeconfig("admin")
    start_etcd(cluster)
    start_server(cluster, accounts=what != "api", flags=flags)
    cluster.processes.wait("apiserver", "/readyz", lambda: answers(cluster.authority, "/readyz"))
    if what == "controllers":
        start_controllers(cluster, OBJECTS)
    if what == "nodes":
        start_controllers(cluster, "*")
        start_scheduler(cluster)
    if what != "api":
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        cluster.processes.wait("controller-manager", "the first ServiceAccount",
                               lambda: answers(cluster.authority, account))
