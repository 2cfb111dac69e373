#!/usr/bin/env python3
"""Watches that break: what changed meanwhile is seen.

The API server keeps no cache for watches here, so that a version older than etcd's compaction is
too old at once (410), as after hours elsewhere.
"""
import http.client
import json

from bed.cluster import (AUDITED, OURS, SYSTEM, apply, call, cluster, expect, function, get,
                         in_space, is_accepted, kubectl, names, path_of, until, up)
from bed.programs import controller, gateway, make_node, run
from bed.relay import Relay

ROUTES = in_space("functionroutes", SYSTEM)
here = {}


def etcd(path, body):
    connection = http.client.HTTPConnection("127.0.0.1", 2379, timeout=10)
    connection.request("POST", path, json.dumps(body))
    return json.loads(connection.getresponse().read())


def compact():
    """Makes etcd forget all versions but the last."""
    last = etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    etcd("/v3/kv/compaction", {"revision": last, "physical": True})


def served():
    """Returns the names of what a gateway serves."""
    connection = http.client.HTTPConnection("10.99.0.12", 8000, timeout=10)
    connection.request("POST", "/v2/repository/index")
    return sorted(m["name"] for m in json.loads(connection.getresponse().read()))


def start():
    up("--watch-cache=false", *AUDITED)
    make_node("n1")
    here["relay"] = Relay(7000, "10.99.0.21")
    here["controller"] = controller(server=here["relay"].at).start()
    here["gateway"] = gateway(server=here["relay"].at).start()
    apply(function("stays"), function("goes"))
    until("both are accepted", lambda: is_accepted("stays") and is_accepted("goes"))
    until("both are served", lambda: served() == ["goes", "stays"])


def too_old():
    old = call("GET", f"{OURS}/inferencefunctions")["metadata"]["resourceVersion"]
    here["relay"].cut()
    call("DELETE", path_of("goes"))
    call("POST", in_space("inferencefunctions"), function("comes"))
    compact()
    watch = f"{OURS}/inferencefunctions?watch=1&timeoutSeconds=1&resourceVersion={old}"
    gone = kubectl("get", "--raw", watch)
    expect(f"410 of a version as old: {gone}", json.loads(gone)["object"]["code"] == 410)
    here["relay"].mend()
    until("the new one is accepted", lambda: is_accepted("comes"))
    routes = ["f.default.comes", "f.default.stays", "table"]
    until("the routes follow", lambda: names(ROUTES) == routes)
    until("the gateway too", lambda: served() == ["comes", "stays"])


def away():
    """The API server is killed: what is served stays; then all goes on."""
    cluster("kill", "apiserver")
    expect("routes stay", served() == ["comes", "stays"])
    cluster("start", "apiserver")
    until("it answers", lambda: get(path_of("stays")), 60)
    expect("routes stay", served() == ["comes", "stays"])
    apply(function("later"))
    call("DELETE", path_of("comes"))
    # A controller that could not renew its lease for 10 s has ended.
    until("the gateway follows",
          lambda: here["controller"].keep() or served() == ["later", "stays"], 60)


run(start, too_old, away)
