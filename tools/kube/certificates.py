"""A certificate authority of a test cluster, and what it signs: valid for days, made by openssl."""
import secrets
import subprocess

DAYS = "30"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: sluice, cluster: {{server: "{server}", certificate-authority: {ca}}}}}]
users: [{{name: {name}, user: {{client-certificate: {base}.crt, client-key: {base}.key}}}}]
contexts: [{{name: {name}, context: {{cluster: sluice, user: {name}}}}}]
current-context: {name}
"""


def openssl(*arguments, **options):
    subprocess.run(["openssl", *map(str, arguments)], check=True, stderr=subprocess.DEVNULL, **options)


class Authority:
    """Files of one folder: ca.crt, ca.key, and NAME.crt and NAME.key of each certificate."""

    def __init__(self, folder, server):
        self.folder = folder
        self.server = server

    def create(self):
        self.folder.mkdir(parents=True)
        ca = self.folder / "ca"
        self._key(ca)
        openssl("req", "-x509", "-new", "-key", f"{ca}.key", "-out", f"{ca}.crt", "-days", DAYS,
                "-subj", "/CN=sluice-test-cluster", "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign,digitalSignature")

    def _key(self, base):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{base}.key")

    def sign(self, name, subject, names=()):
        """Issues NAME for clients; with names ("DNS:…", "IP:…") it is a server's, too."""
        base, ca = self.folder / name, self.folder / "ca"
        self._key(base)
        openssl("req", "-new", "-key", f"{base}.key", "-subj", subject, "-out", f"{base}.csr")
        extensions = ["keyUsage=critical,digitalSignature", "extendedKeyUsage=clientAuth,serverAuth"]
        if names:
            extensions.append("subjectAltName=" + ",".join(names))
        (self.folder / f"{name}.ext").write_text("\n".join(extensions))
        openssl("x509", "-req", "-in", f"{base}.csr", "-out", f"{base}.crt", "-days", DAYS,
                "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-extfile", f"{base}.ext",
                "-set_serial", "0x" + secrets.token_hex(8))

    def kubeconfig(self, name):
        """Writes and returns the configuration with which a client is NAME."""
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(KUBECONFIG.format(server=self.server, ca=self.folder / "ca.crt", name=name,
                                          base=self.folder / name))
        return path

    def service_account_keys(self):
        """Returns the key that signs tokens, and the one that checks them."""
        private, public = self.folder / "accounts.key", self.folder / "accounts.pub"
        openssl("genrsa", "-out", private, "2048")
        openssl("rsa", "-in", private, "-pubout", "-out", public)
        return private, public
