#!/usr/bin/env python3
"""Objects that are wrong: the API server names the field, or a condition and an Event say what is
wrong; nothing else is harmed.
"""
import json
import re
import subprocess
import time

from bed.cluster import (AUDITED, CORE, JSON_PATCH, MODELS, STATE, SYSTEM, TOP, apply, audit, call,
                         condition, events, expect, function, get, in_space, is_accepted, items,
                         kubectl, names, patch, path_of, until, up)
from bed.programs import controller, run

REVISIONS = in_space("functionrevisions")
ROUTES = in_space("functionroutes", SYSTEM)
here = {}

# Fields that the API server refuses, and the name by which it has to call them.
REFUSED = {
    "spec.minReplicas": {"minReplicas": -1},
    "spec.maxReplicas": {"maxReplicas": "many"},
    "spec.timeout": {"timeout": "soon"},
    "spec.slo.latency": {"slo": {"latency": "5 apples"}},
    "spec.slo.percentile": {"slo": {"latency": "1s", "percentile": 101}},
    "spec.device": {"device": "abacus"},
    "spec.maxQueue": {"maxQueue": -5},
    "spec.containerConcurrency": {"containerConcurrency": 1.5},
    "spec.canaryTrafficPercent": {"canaryTrafficPercent": 101},
    "spec.model.sha256": {"model": {"storageUri": "https://there/m.pt", "sha256": "abc"}},
    "spec.model.modelFormat.name": {"model": {"storageUri": "file:///m.pt",
                                              "modelFormat": {"name": "onnx"}}},
    "spec.model.inputs.datatype": {"model": {"storageUri": "file:///m.pt", "inputs": [
        {"name": "x", "datatype": "FP8", "shape": [1]}]}},
    "spec.model": {"model": {}},
}


def start():
    up(*AUDITED)
    here["controller"] = controller().start()
    apply(function())
    until("mlp is accepted", lambda: is_accepted("mlp"))


def refused_by_the_schema():
    folder = STATE / "refused"
    folder.mkdir()
    for i, fields in enumerate(REFUSED.values()):
        (folder / f"bad{i:02}.json").write_text(json.dumps(function(f"bad{i:02}", **fields)))
    said = kubectl("apply", "-f", folder, fails=True)
    # kubectl says what its copy of the schema refuses, or what the API server answered.
    refusals = re.split('(?=error validating "|The InferenceFunction "|Error from server)', said)
    silent = [field for i, field in enumerate(REFUSED)
              if not [r for r in refusals if f"bad{i:02}" in r and field in r]]
    expect(f"each is named: {silent} in {said}", not silent)
    expect("none is there", names(in_space("inferencefunctions")) == ["mlp"])


def refused_by_kubectl():
    """A field that there is not, once kubectl has read the schema."""
    file = STATE / "unknown.json"
    file.write_text(json.dumps(function("bad", minReplica=2)))
    until("it is named", lambda: 'unknown field "minReplica"' in subprocess.run(
        [TOP / "tools/cluster", "kubectl", "create", "--dry-run=client", "-f", file],
        capture_output=True, text=True, check=False).stderr)


def program(name, **server):
    """Returns a function without a model."""
    out = function(name, server={"command": ["/usr/bin/python3", "-m", "http.server"]} | server)
    del out["spec"]["model"]
    return out


def refused_by_the_controller():
    """What a schema cannot say. An Event for each refusal, not for each try."""
    apply(function("bad", model={"storageUri": "file:///nowhere/none.pt"}),
          function("turned", minReplicas=3, maxReplicas=2),
          program("copies", files=["/etc/hostname"]))
    for name, word in (("bad", "/nowhere/none.pt"), ("turned", "maxReplicas"),
                       ("copies", "name it in server.image")):
        until(f"{name} is refused", lambda n=name: condition(n, "Degraded")[1] == "Refused")
        for kind in "Degraded", "Ready":
            expect(f"{name}: {condition(name, kind)}", word in condition(name, kind)[2])
        until(f"an Event of {name}", lambda n=name, w=word: [m for r, m in events(n) if w in m])
    kubectl("delete", "ifn", "turned", "copies")
    # What another image has, and a Secret, are the node's to find.
    apply(program("own", image="there/own:1", command=["/own"], env={"KEY": {"file": "key"}}))
    until("a program of another image is accepted", lambda: is_accepted("own"))
    # A good revision goes on under a bad change, and a mended one is taken.
    patch(path_of("mlp"), {"spec": {"model": {"storageUri": "file:///nowhere/none.pt"}}})
    until("the change is refused", lambda: condition("mlp", "Degraded")[1] == "Refused")
    expect("the revision before is there", [n for n in names(REVISIONS) if "mlp" in n] == ["mlp-1"])
    why = condition("mlp", "Degraded")[2]
    expect(f"it is said: {why}", "serves on" in why)
    patch(path_of("mlp"), {"spec": {"model": {"storageUri": f"file://{MODELS}/mlp.pt"}}})
    until("mlp is accepted again", lambda: is_accepted("mlp"))


def of_other_versions():
    """A newer kind of object is refused, a newer field dropped; a field that a revision of an older
    version lacks is the default; a revision that cannot be read harms no other."""
    newer = json.dumps(function("newest") | {"apiVersion": "sluice.dev/v1beta1"})
    said = kubectl("apply", "-f", "-", stdin=newer, fails=True)
    expect(f"the version is named: {said}", 'in version "sluice.dev/v1beta1"' in said)
    call("POST", in_space("inferencefunctions"), function("newer", levitates=True))
    until("newer is accepted", lambda: is_accepted("newer"))
    expect("what is not known is not kept", "levitates" not in get(path_of("newer"))["spec"])
    here["controller"].kill()
    [old] = [r for r in items(REVISIONS) if r["metadata"]["name"] == "newer-1"]
    specification = {"name": old["spec"]["specification"]["name"], "left": 1,
                     "model": old["spec"]["specification"]["model"]}
    for name, value in ("newer-1", specification), ("mlp-1", {"name": 7}):
        patch(f"{REVISIONS}/{name}",
              [{"op": "replace", "path": "/spec/specification", "value": value}], JSON_PATCH)
    here["controller"].start()
    until("it leads", lambda: here["controller"].log().count(" leads") == 2)
    until("both are accepted", lambda: is_accepted("newer") and is_accepted("mlp"))
    here["controller"].says("FunctionRevision default/")


def of_one_served_name():
    """team/mlp and default/team.mlp are both team.mlp to clients: the first stays."""
    call("POST", f"{CORE}/namespaces", {"metadata": {"name": "team"}})
    call("POST", in_space("inferencefunctions", "team"), function("mlp", "team"))
    until("the first is accepted", lambda: is_accepted("mlp", "team"))
    call("POST", in_space("inferencefunctions"), function("team.mlp"))
    until("the second is refused", lambda: condition("team.mlp", "Degraded")[1] == "Refused")
    why = condition("team.mlp", "Degraded")[2]
    expect(f"it says why: {why}", "is team/mlp already" in why and "would call it team.mlp" in why)
    until("an Event says it", lambda: [m for r, m in events("team.mlp") if "team/mlp" in m])
    expect("the second has no revision", get(f"{REVISIONS}/team.mlp-1") is None)
    expect("the first goes on", is_accepted("mlp", "team"))
    here["controller"].kill()
    here["controller"].start()
    until("it leads", lambda: here["controller"].log().count(" leads") == 3)
    until("the second is refused still", lambda: condition("team.mlp", "Degraded")[1] == "Refused")
    call("DELETE", path_of("mlp", "team"))
    until("the first is gone", lambda: "f.team.mlp" not in names(ROUTES))
    patch(path_of("team.mlp"), {"spec": {"timeout": "9s"}})
    until("then a changed second is taken", lambda: is_accepted("team.mlp"))


def of_a_namespace_that_ends():
    """Its functions go, and the controller is not busy with it."""
    call("POST", f"{CORE}/namespaces", {"metadata": {"name": "ends", "finalizers": ["test/hold"]},
                                        "spec": {"finalizers": ["kubernetes"]}})
    for i in range(3):
        call("POST", in_space("inferencefunctions", "ends"), function(f"f{i}", "ends"))
    until("they are accepted", lambda: all(is_accepted(f"f{i}", "ends") for i in range(3)))
    before = len(audit())
    said = len(here["controller"].warnings())
    begun = time.monotonic()
    call("DELETE", f"{CORE}/namespaces/ends")
    until("they are gone", lambda: not names(in_space("inferencefunctions", "ends")))
    until("their routes too", lambda: not [r for r in names(ROUTES) if ".ends." in r])
    warnings = here["controller"].warnings()[said:]
    asked = (len(audit()) - before) / max(1, time.monotonic() - begun)
    expect(f"few warnings: {warnings}", len(warnings) <= 6)
    expect(f"few requests a second: {asked:.0f}", asked < 40)
    expect("others are there", get(path_of("mlp"))["status"]["newest"] >= 1)


run(start, refused_by_the_schema, refused_by_kubectl, refused_by_the_controller, of_other_versions,
    of_one_served_name, of_a_namespace_that_ends)
