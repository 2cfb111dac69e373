#!/usr/bin/env bash
# A kubelet and a containerd die and come back: requests are served on by the Pods that run.
. "$(dirname "$0")/common.sh"

killed_for() { tools/cluster kill "$1"; sleep "$2"; tools/cluster start "$1"; }

serve_two
before=$(instances)
under_load "kubelet killed" 30 0 killed_for node1/kubelet 20
under_load "containerd killed" 20 0 killed_for node2/containerd 5
until_true 60 kubectl wait --for=condition=Ready node --all --timeout=1s
ask --rate 20 --seconds 5
[ "$(instances)" = "$before" ]
