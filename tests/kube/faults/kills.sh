#!/usr/bin/env bash
# Each component of ours is killed under load, the controller twice in a row. Lost is at most what
# was in flight on a killed gateway: what an instance had, the other answers.
. "$(dirname "$0")/common.sh"

component() { kubectl -n sluice-system get pods -l "app.kubernetes.io/name=sluice-$1" -o "jsonpath={.items[0].metadata.name}"; }
kill_component() { kill_program sluice-system "$(component "$1")" sluice; }
kill_twice() { kill_component controller; sleep 5; kill_component controller; }
kill_instance() { kill_program default "$(kubectl get pods -l sluice.dev/function=mlp -o 'jsonpath={.items[0].metadata.name}')" sluice-runtime; }

serve_two
before=$(instances)
under_load "controller killed twice" 20 0 kill_twice
under_load "agent killed" 15 0 kill_component agent
[ "$(instances)" = "$before" ]
under_load "gateway killed, one of two" 15 4 kill_component gateway
kubectl -n sluice-system rollout status deployment/sluice-gateway --timeout=60s
under_load "function's Pod killed" 20 0 kill_instance
until_true 60 has_two
ask --rate 20 --seconds 5
