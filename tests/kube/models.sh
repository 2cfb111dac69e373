#!/usr/bin/env bash
# Models by URL: a function of one serves; each node fetches it once; a wrong checksum and a server
# without the file are said, with what to do, and harm nothing else.
. "$(dirname "$0")/common.sh"
set -E
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; trap - ERR; explain' ERR

install_on_nodes
mkdir "$SLUICE_CLUSTER/web"
cp "${XDG_CACHE_HOME:-$HOME/.cache}/sluice/models"/mlp.{pt,json} "$SLUICE_CLUSTER/web"
python3 -m http.server --bind 10.99.0.1 --directory "$SLUICE_CLUSTER/web" 8099 \
  2>"$SLUICE_CLUSTER/web.log" &
sum=$(sha256sum "$SLUICE_CLUSTER/web/mlp.pt" | cut -d' ' -f1)

web() { # NAME FILE SHA256 INSTANCES
  kubectl apply -f - <<FUNCTION
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: $1}
spec:
  model: {storageUri: "http://10.99.0.1:8099/$2", sha256: "$3"}
  slo: {latency: 5s}
  minReplicas: $4
FUNCTION
}
condition() { kubectl get ifn "$1" -o "jsonpath={.status.conditions[?(@.type==\"$2\")]}"; }
says() { condition "$1" "$2" | grep "\"reason\":\"$3\"" | grep -q "$4"; }
event() { kubectl get events -o 'jsonpath={range .items[*]}{.involvedObject.name} {.message}{"\n"}{end}' | grep -q "$1"; }
has() { [ "$(kubectl get ifn "$1" -o 'jsonpath={.status.ready}')" = "$2" ]; }
fetches() { grep -c 'GET /mlp.pt HTTP/1.1" 200' "$SLUICE_CLUSTER/web.log"; }

# Three instances on two nodes: the controller fetches it, and each node.
web web mlp.pt "$sum" 3
until_true 180 has web 3
deploy/load "$gateway" web --shape 1,64 --rate 10 --seconds 3
nodes=$(kubectl get pods -l sluice.dev/function=web -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u | wc -l)
[ "$(fetches)" = $((1 + nodes)) ] || { echo "fetched $(fetches) times by the controller and $nodes nodes"; false; }

# What cannot be fetched, or is another file, is refused with what to do; `web` serves on.
other=$(printf '%064d' 7)
web wrong mlp.pt "$other" 1
until_true 30 says wrong Ready Refused "has the SHA-256 $sum.*Correct model.sha256"
until_true 30 event "wrong .*SHA-256 $sum"
web absent no.pt "$sum" 1
until_true 30 says absent Ready Refused 404
until_true 30 event 'absent .*404'
deploy/load "$gateway" web --shape 1,64 --rate 10 --seconds 3
[ "$(kubectl get pods -l sluice.dev/function=wrong -o name)" = '' ]

# A node that cannot fetch what the controller could: the function says so, and serves once it can.
kubectl delete ifn web wrong absent
until_true 60 bash -c '[ -z "$(tools/cluster kubectl get pods -l sluice.dev/function=web -o name)" ]'
for node in 1 2; do tools/cluster node $node bash -c 'rm -f /var/lib/sluice-agent/models/*'; done
mv "$SLUICE_CLUSTER/web/mlp.pt" "$SLUICE_CLUSTER/away.pt"
web late mlp.pt "$sum" 1
until_true 60 says late Degraded StartsFail 404
mv "$SLUICE_CLUSTER/away.pt" "$SLUICE_CLUSTER/web/mlp.pt"
until_true 180 has late 1
