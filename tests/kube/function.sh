#!/usr/bin/env bash
# Two nodes: a function is applied and answers; its instance is killed, and another takes its place;
# all of it is uninstalled.
. "$(dirname "$0")/common.sh"
set -E
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; trap - ERR; explain' ERR

install_on_nodes
kubectl apply -f tests/kube/mlp.yaml
ask --until-first 60
kubectl wait --for=condition=Ready inferencefunction/mlp --timeout=30s
ask --rate 20 --seconds 5

pods() { kubectl get pods -l sluice.dev/function=mlp -o "jsonpath={$1}"; }
before=$(pods '.items[0].metadata.name')
kill_program default "$before" sluice-runtime
ask --until-first 60
# A kubelet removes dead containers that it has lost sight of once a minute, and their Pod after that.
until_true 120 bash -c "! tools/cluster kubectl get pod $before -o name"
[ "$(pods '.items[0].metadata.name')" != "$before" ]

kubectl delete inferencefunctions --all -A
until_true 60 bash -c '[ -z "$(tools/cluster kubectl get pods -A -l sluice.dev/function -o name)" ]'
kubectl delete -k deploy --timeout=90s
