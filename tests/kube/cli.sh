#!/usr/bin/env bash
# kubectl sluice: a function is measured on a node; the measurement outlives the controller's volume;
# and what the cluster has recorded is replayed on this machine.
. "$(dirname "$0")/common.sh"
set -E
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; trap - ERR; explain' ERR

install_on_nodes
sluice() { tools/cluster enter build/release/sluice --cluster "$@"; }
kubectl apply -f tests/kube/mlp.yaml
ask --until-first 60
sluice profile mlp
profiles() { kubectl -n sluice-system get functionprofiles -o "jsonpath={.items[*]$1}"; }
until_true 10 bash -c '[ -n "$(tools/cluster kubectl -n sluice-system get functionprofiles -o name)" ]'
[ "$(profiles .spec.function)" = default/mlp ]
sluice get profiles | grep -q 'default/mlp.*measured'

# Another controller, whose volume is empty.
kubectl -n sluice-system delete pod -l app.kubernetes.io/name=sluice-controller
kubectl -n sluice-system rollout status deployment/sluice-controller --timeout=60s
until_true 30 sluice get profiles
sluice get profiles | grep -q 'default/mlp.*measured'

# More than a minute of load, so that a minute is over in it.
ask --rate 10 --seconds 65
sluice simulate --from-store --policies has-gpu,hpa | tee "$SLUICE_CLUSTER/replay"
grep -q 'has-gpu *mlp' "$SLUICE_CLUSTER/replay"
