#!/usr/bin/env python3
"""What users do to a function's object becomes revisions, Pods and routes, and goes with it again.
Then: each verb that deploy/ grants was used, and a missing one is named by what lacks it.

The controller, an agent and a gateway run as their accounts. No kubelet does: Pods stay Pending.
"""
import base64
import collections
import subprocess

from bed.cluster import (AUDITED, CORE, SERVER, SYSTEM, TOP, apply, audit, call, condition, events,
                         expect, function, get, in_space, is_accepted, items, kubectl, names, patch,
                         path_of, until, up)
from bed.programs import agent, controller, gateway, kubeconfig, run, token_of

ROUTES = in_space("functionroutes", SYSTEM)
REVISIONS = in_space("functionrevisions")
PODS = f"{CORE}/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
here = {}


def pods(count, revision=None):
    """Returns the names of our Pods, of a revision or of all, if they are that many."""
    label = f"revision%3D{revision}" if revision else "instance"
    found = names(f"{PODS}?labelSelector=sluice.dev/{label}")
    return len(found) == count and (found or True)


def change(**fields):
    """Changes mlp, and waits for its being applied; returns the status."""
    generation = patch(path_of("mlp"), {"spec": fields})["metadata"]["generation"]
    return until("it is applied", lambda: (
        (status := get(path_of("mlp"))["status"])["observedGeneration"] == generation and status))


def start():
    up(*AUDITED)
    here["controller"] = controller().start()
    here["agent"] = agent().start()
    here["gateway"] = gateway().start()


def applied():
    apply(function())
    until("mlp is accepted", lambda: is_accepted("mlp"))
    [revision] = items(REVISIONS)
    expect("its name", revision["metadata"]["name"] == "mlp-1")
    owner = revision["metadata"]["ownerReferences"][0]
    expect("its owner", owner["uid"] == get(path_of("mlp"))["metadata"]["uid"])
    until("a route", lambda: names(ROUTES) == ["f.default.mlp", "table"])
    until("a Pod", lambda: pods(1, 1))


def scaled():
    """The number of instances alone makes no revision."""
    kubectl("scale", "ifn", "mlp", "--replicas=2")
    before = until("two Pods", lambda: pods(2, 1))
    until("a status of both", lambda: get(path_of("mlp"))["status"]["replicas"] == 2)
    call("DELETE", f"{PODS}/{before[0]}")
    until("another Pod", lambda: pods(2, 1) and before[0] not in pods(2, 1))


def changed():
    """The last few revisions stay, and the one that serves: no other has become ready."""
    for seconds in range(11, 23):
        status = change(timeout=f"{seconds}s")
    expect(f"the newest: {status}", status["newest"] == 13 and status["serving"] == 1)
    until("the second is gone", lambda: "mlp-2" not in names(REVISIONS))
    expect("others stay", {"mlp-1", "mlp-12", "mlp-13"} <= set(names(REVISIONS)))
    reasons = {reason for reason, _ in events("mlp")}
    expect(f"Events: {reasons}", {"Apply", "Start", "Stop"} <= reasons)


def edited_by_hand():
    """A status is the controller's, and what a Pod holds its agent's: each puts right what another
    has written."""
    right = get(path_of("mlp"))["status"]
    wrong = {"replicas": 77, "ready": 76, "serving": 4, "newest": 5, "lastDecision": "none",
             "conditions": [{"type": "Ready", "status": "True", "reason": "Edited",
                             "message": "by hand", "observedGeneration": 1,
                             "lastTransitionTime": "2020-01-01T00:00:00Z"}]}
    patch(path_of("mlp") + "/status", {"status": wrong})
    fields = "replicas", "ready", "serving", "newest"
    until("the status as it was", lambda: condition("mlp", "Ready")[0] == "False" and all(
        get(path_of("mlp"))["status"][field] == right[field] for field in fields))
    name = pods(2, 1)[0]
    pod = f"{PODS}/{name}"
    call("POST", f"{pod}/binding", {"metadata": {"name": name},
                                    "target": {"kind": "Node", "name": "n1"}})
    patch(pod, {"metadata": {"annotations": {"sluice.dev/slice": "all"}}})
    until("the slice that it has", lambda: "of n1/cpu" in (
        get(pod)["metadata"]["annotations"]["sluice.dev/slice"]))
    # No kubelet would end it.
    call("DELETE", pod + "?gracePeriodSeconds=0")
    until("two Pods again", lambda: pods(2, 1))


def a_revision_that_is_there():
    """Of a controller that died before it went on: the next one takes its place."""
    old = {"apiVersion": "sluice.dev/v1alpha1", "kind": "FunctionRevision",
           "metadata": {"name": "second-1"},
           "spec": {"function": "second", "number": 1, "specification": {}}}
    call("POST", REVISIONS, old)
    apply(function("second"))
    until("second is accepted", lambda: is_accepted("second"))
    expect("its revision", get(f"{REVISIONS}/second-1")["spec"]["specification"])


def sluice(*words):
    """`kubectl sluice …`, as an account that deploy/users.yaml is for."""
    done = subprocess.run([TOP / "build/release/sluice", "--cluster", "--kubeconfig",
                           kubeconfig("sluice-user"), *words], capture_output=True, text=True)
    expect(f"{words}: {done.stderr}", done.returncode == 0)
    return done.stdout


def used_by_people():
    """Through the API server's proxy: what is listed, ordered and measured."""
    where = f"{CORE}/namespaces/{SYSTEM}"
    call("POST", f"{where}/serviceaccounts", {"metadata": {"name": "sluice-user"}})
    call("POST", f"{RBAC}/namespaces/{SYSTEM}/rolebindings", {
        "metadata": {"name": "sluice-user"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sluice-user"},
        "subjects": [{"kind": "ServiceAccount", "name": "sluice-user", "namespace": SYSTEM}]})
    # The API server's proxy takes an endpoint's address from its Pod.
    call("POST", f"{where}/pods", {"metadata": {"name": "controller"}, "spec": {
        "nodeName": "n1", "containers": [{"name": "it", "image": "sluice"}]}})
    patch(f"{where}/pods/controller/status", {"status": {"podIP": SERVER[0]}})
    address = {"ip": SERVER[0], "targetRef": {
        "kind": "Pod", "namespace": SYSTEM, "name": "controller"}}
    call("POST", f"{where}/endpoints", {"metadata": {"name": "sluice-controller"}, "subsets": [
        {"addresses": [address], "ports": [{"name": "https", "port": 7443}]}]})
    expect("functions are listed", "mlp" in sluice("get", "functions"))
    sluice("drain", "n1/cpu1")
    sluice("undrain", "n1/cpu1")
    expect("a rollback", "revision 12" in sluice("rollback", "mlp", "--to", "12"))
    until("it is the newest", lambda: get(path_of("mlp"))["status"]["newest"] == 12)
    for latency_us in (5000, 6000):
        measured(latency_us)
        until("its measurement is an object", lambda us=latency_us: [
            p for p in items(in_space("functionprofiles", SYSTEM))
            if p["spec"]["profile"]["points"][0]["latency_p50_us"] == us])


def measured(latency_us):
    """Puts a profile of mlp, as `kubectl sluice profile` does once it has measured."""
    point = {"batch": 1, "sm": 1000, "quota": 1000, "latency_p50_us": latency_us,
             "latency_p95_us": latency_us, "throughput": 200.0}
    secret = get(f"{CORE}/namespaces/{SYSTEM}/secrets/sluice-api-token")["data"]["token"]
    path = f"{CORE}/namespaces/{SYSTEM}/services/https:sluice-controller:7443/proxy/v1/profiles"
    model = function()["spec"]["model"]["storageUri"].removeprefix("file://")
    call("PUT", path, {"model": model, "function": "default/mlp", "revision": 1, "points": [point]},
         token=token_of("sluice-user"), headers={"X-Sluice-Token": base64.b64decode(secret).decode()})


def deleted():
    kubectl("delete", "ifn", "second")
    until("nothing of it", lambda: names(ROUTES) == ["f.default.mlp", "table"]
          and "second-1" not in names(REVISIONS) and not [p for p in names(PODS) if "second" in p])


def deleted_while_no_controller_runs():
    """Kubernetes collects what the function owns; the next controller removes its route."""
    here["controller"].kill()
    kubectl("delete", "ifn", "mlp")
    # The garbage collector looks for new kinds of objects every 30 s.
    until("no Pod and no revision", lambda: pods(0) and not names(REVISIONS), 90)
    peers = f"{CORE}/namespaces/{SYSTEM}/secrets/sluice-peer-tls"
    patch(peers, {"data": {"ca.crt": "b3RoZXI="}})  # as of another authority: to be renewed
    here["controller"].start()
    until("no route", lambda: names(ROUTES) == ["table"], 60)
    expect("a renewed certificate", get(peers)["data"]["ca.crt"] != "b3RoZXI=")


def others():
    """What is not an inference function."""
    apply({"apiVersion": "sluice.dev/v1alpha1", "kind": "TrainingFunction",
           "metadata": {"name": "job", "namespace": "default"},
           "spec": {"command": ["true"], "length": 10}})
    until("it says that it is not run", lambda: "not run on Kubernetes yet" in str(
        condition("job", "Degraded", plural="trainingfunctions")))
    call("POST", PODS, {"metadata": {"name": "theirs", "annotations": {"sluice.dev/quota": "30%"}},
                        "spec": {"nodeName": "n1", "containers": [{"name": "it", "image": "it"}]}})
    # Only now: no webhook can be called here.
    patch(f"{CORE}/namespaces/default", {"metadata": {"labels": {"sluice.dev/slices": "enabled"}}})
    until("an Event of its slice", lambda: events("theirs"))


def roles():
    """Yields (kind of role, its object) of our accounts."""
    for kind, path in (("clusterroles", f"{RBAC}/clusterroles"),
                       ("roles", f"{RBAC}/namespaces/{SYSTEM}/roles")):
        for account in ("sluice-controller", "sluice-agent", "sluice-gateway", "sluice-user"):
            if role := get(f"{path}/{account}"):
                yield f"{path}/{account}", account, role


def requests():
    """Returns (account, resource, verb) of all, and the paths of those that were refused."""
    # A server-side apply that creates is a patch here; without this verb it is refused (below).
    used, refused = {("sluice-controller", f"function{kind}", "create")
                     for kind in ("routes", "profiles")}, []
    for entry in audit():
        of = entry["objectRef"]
        resource = of["resource"] + ("/" + of["subresource"] if "subresource" in of else "")
        used.add((entry["user"]["username"].rpartition(":")[2], resource, entry["verb"]))
        if entry["responseStatus"].get("code") == 403:
            refused.append(entry["requestURI"])
    return used, refused


def each_verb_is_used():
    granted = {(account, resource, verb) for _, account, role in roles() for rule in role["rules"]
               for resource in rule["resources"] for verb in rule["verbs"]}
    for name in "agent", "gateway":
        here[name].kill()  # a watch is in the log once it has ended
    watches = {("sluice-agent", "pods", "watch"), ("sluice-agent", "namespaces", "watch"),
               ("sluice-gateway", "functionroutes", "watch")}
    until("their watches have ended", lambda: watches <= requests()[0])
    used, refused = requests()
    expect(f"granted, and not used: {granted - used}", granted <= used)
    expect(f"refused: {refused}", not refused)
    warnings = here["gateway"].warnings()
    expect(f"a gateway that can read all: {warnings}", not warnings)


# The account, the verb, the resource, and which object the refusal names.
REMOVED = [("sluice-controller", "create", "pods", '"pods"'),
           ("sluice-controller", "create", "functionroutes", "f.default.third"),
           ("sluice-controller", "patch", "trainingfunctions/status", '"trainingfunctions/status"'),
           ("sluice-controller", "create", "events", '"events"'),
           ("sluice-controller", "update", "leases", '"leases"'),
           ("sluice-agent", "patch", "nodes/status", '"nodes/status"'),
           ("sluice-gateway", "list", "functionroutes", '"functionroutes"')]


def missing_verbs_are_named():
    for name in "agent", "gateway":
        here[name].start()
    apply(function("second"))
    until("routes are written again", lambda: "f.default.second" in names(ROUTES))
    for path, account, role in list(roles()):
        for rule in role["rules"]:
            lacking = {verb for who, verb, what, _ in REMOVED
                       if who == account and what in rule["resources"]}
            rule["verbs"] = [verb for verb in rule["verbs"] if verb not in lacking] or ["none"]
        call("PUT", path, role)
    apply(function("third"))
    patch(in_space("trainingfunctions") + "/job", {"spec": {"length": 11}})
    here["controller"].says('"f.default.third" is forbidden')
    for name in "agent", "gateway":
        here[name].kill()
        (here[name].data / "routes.json").unlink(missing_ok=True)
        here[name].start()
    for account, verb, resource, named in REMOVED:
        log = here[account.removeprefix("sluice-")].log
        until(f"{account} says that it may not {verb} {resource}", lambda r=log, n=named: [
            line for line in r().splitlines() if "forbidden" in line and n in line])
    until("it has ended without its lease", lambda: here["controller"].process.poll() == 1)
    said = collections.Counter(line[25:] for line in here["controller"].log().splitlines()
                               if "forbidden" in line)
    expect(f"each is said, and not at each turn: {said}", max(said.values()) < 12)


run(start, applied, scaled, changed, edited_by_hand, used_by_people, a_revision_that_is_there, deleted,
    deleted_while_no_controller_runs, others, each_verb_is_used, missing_verbs_are_named)
