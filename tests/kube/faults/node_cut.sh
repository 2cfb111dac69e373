#!/usr/bin/env bash
# A node is cut off: clients of the gateway on the other node are answered; when the node is back,
# nothing runs twice.
. "$(dirname "$0")/common.sh"

serve_two
# Of the gateways, the one on node 1.
address=$(kubectl -n sluice-system get pods -l app.kubernetes.io/name=sluice-gateway \
  --field-selector spec.nodeName=node1 -o 'jsonpath={.items[0].status.podIP}')
gateway=http://$address:8000
cut_and_mend() { tools/cluster cut 2; sleep 20; tools/cluster mend 2; }
before=$(instances)
# What node 2's instance has, and what is sent there until its silence is noticed, goes to the other.
under_load "node cut off, by the other gateway" 40 0 cut_and_mend
until_true 60 kubectl wait --for=condition=Ready node --all --timeout=1s
[ "$(instances)" = "$before" ]
ask --rate 20 --seconds 5
