#!/usr/bin/env python3
"""A node that comes back with other devices: an Event says which, the function that needed them says
so, and goes on when they are back. What is on another node goes on throughout.
"""
import json

from bed.cluster import CORE, apply, condition, events, expect, function, items, until, up
from bed.programs import agent, controller, run

here = {}


def pods(name):
    """Returns the UIDs of a function's Pods."""
    found = items(f"{CORE}/namespaces/default/pods?labelSelector=sluice.dev/function%3D{name}")
    return [pod["metadata"]["uid"] for pod in found]


def give_devices(program, devices):
    program.command[-1] = devices


def reboot(program, devices):
    """As a machine that starts again: what was recorded is of an earlier boot."""
    program.kill()
    file = program.data / "run/node.state"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"boot_id": "an earlier one"}))
    give_devices(program, devices)
    program.start()


def says(text, node="n1"):
    return [message for reason, message in events(node)
            if reason == "DevicesChanged" and text in message]


def start():
    up()
    here["controller"] = controller().start()
    for node, address, devices in (("n1", "10.99.0.11", "big=1x300m"),
                                   ("n2", "10.99.0.12", "little=2x200m")):
        here[node] = agent(node, address)
        give_devices(here[node], devices)
        here[node].start()
    apply(function("needs", deviceTypes=["big"]), function("other", deviceTypes=["little"]))
    until("both have a Pod", lambda: pods("needs") and pods("other"))
    here["other"] = pods("other")
    expect("nothing has changed yet", not says("") and not says("", "n2"))


def another_type():
    reboot(here["n1"], "odd=1x300m")
    until("an Event says which", lambda: says("gone: cpu0: big; new: cpu0: odd"))
    until("its Pod is gone", lambda: not pods("needs"), 60)
    until("a condition says so", lambda: condition("needs", "Degraded")[1] == "TooFew")
    until("an Event says why", lambda: [message for reason, message in events("needs")
                                        if reason == "Unmet" and "deviceTypes" in message])


def back():
    reboot(here["n1"], "big=1x300m")
    until("an Event says so", lambda: says("gone: cpu0: odd; new: cpu0: big"))
    until("it has a Pod again", lambda: pods("needs"), 60)


def nothing_else_is_harmed():
    expect("the other's Pod is the same", pods("other") == here["other"])
    expect("nothing of its node has changed", not says("", "n2"))


def fewer():
    reboot(here["n2"], "little=1x200m")
    until("an Event says so", lambda: says("gone: cpu1: little.", "n2"))
    until("it has another Pod", lambda: pods("other") not in ([], here["other"]), 60)


run(start, another_type, back, nothing_else_is_harmed, fewer)
