#!/usr/bin/env bash
# The API server is away for a minute: requests are served on, and nothing is started twice.
. "$(dirname "$0")/common.sh"

down_for_a_minute() {
  tools/cluster kill apiserver
  sleep 60
  tools/cluster start apiserver
}

serve_two
before=$(instances)
under_load "API server down for a minute" 75 0 down_for_a_minute
until_true 60 tools/cluster kubectl get nodes
until_true 60 kubectl -n sluice-system rollout status deployment/sluice-controller --timeout=1s
ask --rate 20 --seconds 5
[ "$(instances)" = "$before" ]
