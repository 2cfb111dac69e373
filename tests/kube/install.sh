#!/usr/bin/env bash
# The manifests of deploy/ are taken by a real API server, functions too; and they go again.
. "$(dirname "$0")/common.sh"

tools/cluster up controllers
kubectl apply -k deploy
kubectl wait --for=condition=established --timeout=20s crd --all
until_true 20 kubectl get inferencefunctions,trainingfunctions,functionrevisions,functionprofiles,functionroutes -A

# A change that the server would have to make is one that a file lacks.
kubectl diff -k deploy

kubectl apply -f examples/resnet50.yaml
[ "$(kubectl get ifn resnet50 -o jsonpath='{.spec.minReplicas}')" = 1 ]
refused 'minReplicas' kubectl patch ifn resnet50 --type merge -p '{"spec":{"minReplicas":-1}}'
refused 'minReplicas' kubectl patch ifn resnet50 --type merge -p '{"spec":{"minReplicas":"many"}}'
kubectl scale ifn resnet50 --replicas=3
[ "$(kubectl get ifn resnet50 -o jsonpath='{.spec.minReplicas}')" = 3 ]

# Each component's account may do what it does, and not what another does.
may() { kubectl auth can-i --as "system:serviceaccount:sluice-system:$1" "${@:2}" >/dev/null; }
may_not() { ! may "$@"; }
may sluice-controller create pods -n default
may sluice-controller patch inferencefunctions.sluice.dev --subresource=status -n default
may sluice-controller get secrets/sluice-ca -n sluice-system
may sluice-agent watch pods -A
may sluice-gateway watch functionroutes.sluice.dev -n sluice-system
may_not sluice-controller get secrets/other -n sluice-system
may_not sluice-controller get secrets -n default
may_not sluice-agent create pods -n default
may_not sluice-agent get functionroutes.sluice.dev -n sluice-system
may_not sluice-gateway list pods -n default
may_not sluice-gateway get secrets -n sluice-system

kubectl delete -k deploy --timeout=60s
refused 'not found' kubectl get namespace sluice-system
[ -z "$(kubectl get crd,clusterroles,clusterrolebindings -o name | grep sluice)" ]
