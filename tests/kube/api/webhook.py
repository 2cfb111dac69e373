#!/usr/bin/env python3
"""The webhook as the API server calls it: annotations that cannot be read, a certificate that has
expired, one that is not trusted. Pods without slices are taken all the while.
"""
import base64
import subprocess

from bed.cluster import (AUDITED, CORE, SERVER, STATE, SYSTEM, Refused, call, cluster, expect, get,
                         patch, until, up)
from bed.programs import controller, run

HOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/sluice"
here = {"pods": 0}


def refusal(space="team", **annotations):
    """Makes a Pod; returns why it is refused, or nothing."""
    here["pods"] += 1
    notes = {f"sluice.dev/{name}": value for name, value in annotations.items()}
    pod = {"metadata": {"name": f"p{here['pods']}", "annotations": notes},
           "spec": {"containers": [{"name": "it", "image": "it"}]}}
    try:
        call("POST", f"{CORE}/namespaces/{space}/pods", pod)
        return ""
    except Refused as refused:
        return str(refused)


def start():
    # There is no kube-proxy: the API server calls the Service's endpoint itself.
    up("--enable-aggregator-routing=true", *AUDITED)
    call("POST", f"{CORE}/namespaces/{SYSTEM}/endpoints", {
        "metadata": {"name": "sluice-controller"}, "subsets": [{
            "addresses": [{"ip": SERVER[0]}], "ports": [{"name": "webhook", "port": 8443}]}]})
    here["controller"] = controller().start()
    call("POST", f"{CORE}/namespaces", {
        "metadata": {"name": "team", "labels": {"sluice.dev/slices": "enabled"}}})
    until("a Pod has a slice", lambda: not refusal(quota="30%"))


def others_are_taken():
    expect("a Pod of another namespace", not refusal("default", quota="lots"))


def annotations():
    for name, value, says in (("quota", "lots", "'lots'"), ("sm", "-1", "'-1'"),
                              ("quotas", "30%", "sluice.dev/quotas: there is none of that name"),
                              ("memory", "2Gi", "sluice.dev/device: cuda")):
        why = refusal(**{name: value})
        expect(f"{name}: {value}: {why}", says in why)
    expect("one without annotations", not refusal())
    limit = f"{CORE}/namespaces/team"
    for most, says in ("lots", "'lots': whole percent"), ("20%", "may hold 20%"):
        patch(limit, {"metadata": {"annotations": {"sluice.dev/most-quota": most}}})
        until(f"the limit {most} refuses", lambda s=says: s in refusal(quota="30%"))
    expect("one without annotations", not refusal())
    patch(limit, {"metadata": {"annotations": {"sluice.dev/most-quota": None}}})
    until("without a limit", lambda: not refusal(quota="30%"))


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=STATE)


def expired():
    """A certificate of our authority whose time is over takes the place of the controller's."""
    secret = get(f"{CORE}/namespaces/{SYSTEM}/secrets/sluice-ca")["data"]
    for name, key in ("ca.crt", "tls.crt"), ("ca.key", "tls.key"):
        (STATE / name).write_bytes(base64.b64decode(secret[key]))
    name = "sluice-controller"
    (STATE / "names").write_text(f"subjectAltName=DNS:{name},DNS:{name}.{SYSTEM}.svc\n")
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "old.key")
    openssl("req", "-new", "-key", "old.key", "-subj", f"/CN={name}", "-out", "old.csr")
    openssl("x509", "-req", "-in", "old.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "-1", "-extfile", "names", "-out", "old.crt")
    folder = here["controller"].data / "run/tls"

    def is_said():
        # Again each time: the controller looks once a minute, and renews it.
        for ending in "key", "crt":
            (folder / f"tls.{ending}").write_bytes((STATE / f"old.{ending}").read_bytes())
        return "certificate has expired" in refusal(quota="1%")

    # The API server has a connection of before; another one has to be made.
    cluster("kill", "apiserver")
    cluster("start", "apiserver")
    until("it answers", lambda: get(HOOK), 60)
    until("it is said", is_said)
    others_are_taken()
    until("it is renewed", lambda: here["controller"].keep() or not refusal(quota="1%"), 90)
    here["controller"].says("have a new certificate")


def not_trusted():
    """The configuration has lost our authority, as after `kubectl replace`."""
    patch(HOOK, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}],
          "application/json-patch+json")
    until("it is said", lambda: "certificate" in refusal(quota="1%"))
    here["controller"].kill()
    here["controller"].start()
    until("the next controller writes it again", lambda: not refusal(quota="1%"), 60)


run(start, others_are_taken, annotations, expired, not_trusted)
