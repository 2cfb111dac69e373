# Of the cases of this folder: sourced first. A function with two instances, one on each node, under
# a constant load while something fails.
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
set -E
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; trap - ERR; explain' ERR

has_two() { [ "$(kubectl get ifn mlp -o 'jsonpath={.status.ready}')" = 2 ]; }
serve_two() {
  install_on_nodes
  sed 's/minReplicas: 1/minReplicas: 2/' tests/kube/mlp.yaml | kubectl apply -f -
  until_true 60 has_two
  ask --until-first 60
}

# under_load NAME SECONDS MOST_LOST COMMAND…: COMMAND while requests arrive; then how they went.
# $RATE: requests a second. $MOST_LOST: in place of each case's, for a benchmark that counts them.
under_load() {
  local name=$1 seconds=$2 lost=${MOST_LOST:-$3} load status=0; shift 3
  ask --rate "${RATE:-20}" --seconds "$seconds" --most-lost "$lost" >"$SLUICE_CLUSTER/load" &
  load=$!
  sleep 2  # of the load: there is nothing to wait for
  "$@"
  wait $load || status=$?
  echo "$name: $(cat "$SLUICE_CLUSTER/load")"
  return $status
}

instances() { kubectl get pods -A -l sluice.dev/function=mlp -o name | sort; }
