"""A cluster of objects alone, without kubelets, as a case sees it: calls, functions, what is there.

Cases run in the namespaces of `tools/cluster alone`.
"""
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parents[4]
STATE = pathlib.Path(os.environ["SLUICE_CLUSTER"])
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MODELS = CACHE / "sluice/models"
SERVER = ("10.99.0.1", 6443)
CORE, OURS = "/api/v1", "/apis/sluice.dev/v1alpha1"
SYSTEM = "sluice-system"
AUDIT = STATE / "audit.log"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"


def cluster(*words, fails=False, stdin=None):
    """Runs tools/cluster; returns what it printed. `fails`: it has to."""
    done = subprocess.run([TOP / "tools/cluster", *map(str, words)], cwd=TOP, text=True,
                          input=stdin, capture_output=True)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{words}: exit status {done.returncode}: {done.stderr}{done.stdout}")
    return done.stderr if fails else done.stdout


def kubectl(*words, **how):
    return cluster("kubectl", *words, **how)


class Refused(Exception):
    """The API server's answer was no 2xx."""


def call(method, path, body=None, content_type="application/json", token=None, headers=None):
    """Asks the API server as its administrator, or with a token; returns the answer's object."""
    context = ssl.create_default_context(cafile=STATE / "pki/ca.crt")
    connection = http.client.HTTPSConnection(*SERVER, context=context, timeout=10)
    token = token or (STATE / "pki/token").read_text()
    connection.request(method, path, body=None if body is None else json.dumps(body), headers={
        "Authorization": "Bearer " + token, "Content-Type": content_type, **(headers or {})})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status // 100 != 2:
        raise Refused(f"{method} {path}: {answer.status} {text.decode()}")
    return json.loads(text)


def get(path):
    """Returns an object, or None if it is not there."""
    try:
        return call("GET", path)
    except Refused as refused:
        if " 404 " in str(refused):
            return None
        raise


def items(path):
    return call("GET", path)["items"]


def names(path):
    return sorted(o["metadata"]["name"] for o in items(path))


def patch(path, body, content_type=MERGE):
    return call("PATCH", path, body, content_type)


def in_space(kind, space="default"):
    return f"{OURS}/namespaces/{space}/{kind}"


def until(what, condition, seconds=30):
    """Waits for a true condition, and returns its value."""
    end = time.monotonic() + seconds
    while True:
        try:
            value, why = condition(), ""
        except (Refused, OSError, KeyError, TypeError, http.client.HTTPException) as error:
            value, why = None, f": {error!r}"
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}{why}")
        time.sleep(0.05)


def expect(what, value):
    if not value:
        raise AssertionError(what)


def function(name="mlp", space="default", **fields):
    spec = {"model": {"storageUri": f"file://{MODELS}/mlp.pt"}, "minReplicas": 1} | fields
    return {"apiVersion": "sluice.dev/v1alpha1", "kind": "InferenceFunction",
            "metadata": {"name": name, "namespace": space}, "spec": spec}


def apply(*objects):
    return kubectl("apply", "-f", "-", stdin="\n".join(map(json.dumps, objects)))


def path_of(name, space="default"):
    return in_space("inferencefunctions", space) + "/" + name


def condition(name, kind, space="default", plural="inferencefunctions"):
    """Returns (status, reason, message) of a condition."""
    found = get(in_space(plural, space) + "/" + name) or {}
    for c in found.get("status", {}).get("conditions", []):
        if c["type"] == kind and c["observedGeneration"] == found["metadata"]["generation"]:
            return c["status"], c["reason"], c["message"]
    return None, None, None


def is_accepted(name, space="default"):
    """Whether the object as it is now was accepted: it has a revision."""
    return condition(name, "Degraded", space)[1] not in (None, "Refused") and (
        "newest" in get(path_of(name, space))["status"])


def events(name, space="default"):
    """Returns (reason, message) of an object's Events."""
    return [(e["reason"], e["message"]) for e in items(f"{CORE}/namespaces/{space}/events")
            if e["involvedObject"]["name"] == name]


def up(*flags):
    """Starts the cluster, with what `kubectl apply -k deploy` installs."""
    subprocess.run([TOP / "tools/make_models", "--only", "mlp"], check=True,
                   stdout=subprocess.DEVNULL)
    print(cluster("up", "controllers", *flags), end="")
    kubectl("apply", "-k", "deploy")
    kubectl("wait", "--for=condition=established", "--timeout=20s", "crd", "--all")
    for kind in ("inferencefunctions", "trainingfunctions", "functionrevisions", "functionroutes"):
        until(f"{kind} are served", lambda kind=kind: get(f"{OURS}/{kind}"))


# Makes the API server write AUDIT, of our accounts' requests.
AUDITED = (f"--audit-policy-file={TOP}/tests/kube/api/audit.yaml", f"--audit-log-path={AUDIT}")


def audit():
    return [json.loads(line) for line in AUDIT.read_text().splitlines() if line.endswith("}")]
