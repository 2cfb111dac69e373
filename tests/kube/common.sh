# Of the cases of this folder: sourced first. Says the line that failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
trap 'echo "failed at line $LINENO: $BASH_COMMAND"' ERR
kubectl() { tools/cluster kubectl "$@"; }

# refused WHY COMMAND…: the command fails, and says WHY.
refused() {
  local why=$1 out; shift
  if out=$("$@" 2>&1); then echo "not refused: $*"; return 1; fi
  grep -q -- "$why" <<<"$out" || { echo "refused otherwise: $out"; return 1; }
}

# until SECONDS COMMAND…: the command succeeds before they are over.
until_true() {
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "not within time: $*"; "$@"; return 1; }
    sleep 0.2
  done
}

# install_on_nodes [MODEL…]: two nodes with everything on them, as a user installs it; the image has
# these models (mlp). Variables: `manifests`, a folder for kubectl apply -k; `nvidia`, as tools/cluster
# has it.
install_on_nodes() {
  local models=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/models name
  [ $# -gt 0 ] || set -- mlp
  tools/make_models --only "$@"
  tools/cluster up nodes 2 ${nvidia:+"--nvidia=$nvidia"}
  deploy/image --models "$models" --only "$@" --output "$SLUICE_CLUSTER/image.tar"
  tools/cluster import "$SLUICE_CLUSTER/image.tar"
  kubectl apply -k "${manifests:-tests/kube/small}"  # deploy/, for nodes of few cores
  for name in deployment/sluice-controller daemonset/sluice-agent deployment/sluice-gateway; do
    kubectl -n sluice-system rollout status "$name" --timeout=120s
  done
  gateway=http://$(kubectl -n sluice-system get service sluice-gateway -o 'jsonpath={.spec.clusterIP}')
}

ask() { deploy/load "$gateway" mlp --shape 1,64 "$@"; }

# What components and Pods say; for a case that fails.
explain() {
  local name
  kubectl get inferencefunctions,pods -A -o wide
  kubectl get events -A --sort-by=.lastTimestamp | tail -n 15
  for name in controller agent gateway; do
    echo "-- sluice-$name"
    kubectl -n sluice-system logs -l "app.kubernetes.io/name=sluice-$name" --tail=15
  done
}

# kill_program NAMESPACE POD PROGRAM: SIGKILL to a Pod's processes of that program, as the node's own
# kernel would send it. They are found by the Pod's cgroup.
kill_program() {
  local uid pid killed=''
  uid=$(kubectl -n "$1" get pod "$2" -o 'jsonpath={.metadata.uid}')
  # The same processes are in every hierarchy, and a group may end meanwhile.
  while read -r pid; do
    [ "$(basename "$(readlink "/proc/$pid/exe")")" = "$3" ] || continue
    kill -9 "$pid"
    killed=1
  done < <(find /sys/fs/cgroup -path "*pod$uid/*" -name cgroup.procs -exec cat {} + | sort -u)
  [ -n "$killed" ] || { echo "$2 has no process of $3"; return 1; }
}
