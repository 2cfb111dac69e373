#!/usr/bin/env bash
# A Pod of a user has the slice that its annotations ask for; a changed one resizes it; what cannot
# be is refused with a sentence. And kubectl sluice.
. "$(dirname "$0")/common.sh"
set -E
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; trap - ERR; explain' ERR

install_on_nodes
kubectl create namespace team
kubectl label namespace team sluice.dev/slices=enabled
busy() { # NAME QUOTA
  kubectl apply -f - <<POD
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: team, annotations: {sluice.dev/quota: "$2"}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - {name: busy, image: "localhost/sluice:dev", command: [python3, -c, "while True: pass"]}
POD
}
event() { kubectl -n team get events -o 'jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}' | grep -q "$1"; }
# The quota of the Pod's container, in permille of a core.
permille() {
  local uid
  uid=$(kubectl -n team get pod "$1" -o 'jsonpath={.metadata.uid}')
  find /sys/fs/cgroup -path "*pod$uid/*/cpu.cfs_quota_us" | while read -r file; do
    echo $((1000 * $(cat "$file") / $(cat "${file/quota/period}")))
  done | sort -n | tail -n 1
}
at_least() { [ "$(permille busy)" -ge "$1" ]; }

busy busy '20%'
until_true 30 event 'SliceHeld.*20%'
until_true 10 at_least 1
before=$(permille busy)
kubectl -n team annotate pod busy --overwrite 'sluice.dev/quota=40%'
until_true 10 event 'SliceResized.*40%'
until_true 10 at_least $((before * 3 / 2))

refused "'lots'" kubectl -n team annotate pod busy --overwrite sluice.dev/quota=lots
refused "'200%'" busy more '200%'
kubectl annotate namespace team sluice.dev/most-quota=50%
until_true 10 refused 'may hold 50%' busy more '20%'
kubectl -n team delete pod busy --wait
until_true 10 busy more '20%'
kubectl run plain --image=localhost/sluice:dev --restart=Never --command -- sleep 1000
[ "$(kubectl get pod plain -o 'jsonpath={.spec.volumes[?(@.name=="sluice-permits")]}')" = '' ]

kubectl apply -f tests/kube/mlp.yaml
until_true 20 kubectl get functionrevision mlp-1
sluice() { tools/cluster enter build/release/sluice --cluster "$@"; }
sluice get functions | grep -q mlp
sluice get devices | grep -q node2/cpu0
kubectl patch ifn mlp --type merge -p '{"spec":{"slo":{"latency":"400ms"}}}'
until_true 20 kubectl get functionrevision mlp-2
sluice rollback mlp | grep -q 'revision 1'
newest_is() { [ "$(kubectl get ifn mlp -o 'jsonpath={.status.newest}')" = "$1" ]; }
until_true 10 newest_is 1
kubectl delete ifn mlp
until_true 20 refused 'not found' kubectl get functionrevision mlp-1
