#!/usr/bin/env python3
"""Two controllers, of which one leads: it is stopped for longer than its lease, killed twice."""
import datetime
import signal

from bed.cluster import (AUDITED, CORE, SYSTEM, apply, audit, expect, function, get, in_space,
                         is_accepted, items, names, patch, path_of, until, up)
from bed.programs import agent, controller, run
from bed.relay import Relay

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/sluice-controller"
PODS = f"{CORE}/namespaces/default/pods?labelSelector=sluice.dev/instance"
REVISIONS = in_space("functionrevisions")
FIRST, SECOND = "10.99.0.21", "10.99.0.22"  # where their requests come from
here = {}


def holder():
    return get(LEASE)["spec"]["holderIdentity"]


def now():
    return datetime.datetime.utcnow().isoformat()


def writes(address, since):
    """Returns what the requests from an address were to change, after a time."""
    return [entry["requestURI"] for entry in audit()
            if entry["sourceIPs"] == [address] and entry["requestReceivedTimestamp"] > since
            and entry["verb"] not in ("get", "list", "watch")]


def start():
    up(*AUDITED)
    here["first"] = controller("first", 7443, Relay(7001, FIRST).at).start()
    until("the first leads", lambda: holder() == "first")
    here["second"] = controller("second", 7543, Relay(7002, SECOND).at).start()
    here["agent"] = agent().start()
    apply(function())
    until("it has a Pod", lambda: len(names(PODS)) == 1)
    until("it is accepted", lambda: is_accepted("mlp"))
    here["second"].says("waits for the lease")


def stopped_for_longer_than_its_lease():
    before = names(PODS)
    here["first"].signal(signal.SIGSTOP)
    until("the second leads", lambda: holder() == "second", 60)
    patch(path_of("mlp"), {"spec": {"timeout": "11s"}})
    until("it does the work", lambda: "mlp-2" in names(REVISIONS), 60)
    continued = now()
    here["first"].signal(signal.SIGCONT)
    expect("the first ends at once, and fails", here["first"].process.wait(3) == 1)
    expect("it says why", "the lease is lost" in here["first"].log())
    until("a Pod of each revision", lambda: len(names(PODS)) == 2)
    expect("the first Pod stays", set(before) <= set(names(PODS)))
    until("the second writes", lambda: writes(SECOND, continued))
    expect(f"what the first wrote: {writes(FIRST, continued)}", not writes(FIRST, continued))


def killed_twice():
    """Each time while it has begun something; the next one goes on."""
    before = {o["metadata"]["uid"] for o in items(PODS)}
    apply(function("other"))
    here["second"].kill()
    here["second"].start()
    until("it leads again", lambda: here["second"].log().count("second leads") == 2)
    here["second"].kill()
    patch(path_of("mlp"), {"spec": {"timeout": "12s"}})
    here["second"].start()
    until("the other is accepted", lambda: is_accepted("other"))
    until("what was changed meanwhile is applied", lambda: "mlp-3" in names(REVISIONS))
    revisions = names(REVISIONS)
    expect(f"revisions: {revisions}", revisions == ["mlp-1", "mlp-2", "mlp-3", "other-1"])
    status = get(path_of("mlp"))["status"]
    expect(f"which of them serves: {status}", (status["serving"], status["newest"]) == (1, 3))
    until("a Pod of the other", lambda: [p for p in names(PODS) if p.startswith("other-1-")])
    first = [o["metadata"] for o in items(PODS) if o["metadata"]["name"].startswith("mlp-1-")]
    expect(f"the first Pod, and no other of it: {first}",
           [o["uid"] in before for o in first] == [True])


run(start, stopped_for_longer_than_its_lease, killed_twice)
