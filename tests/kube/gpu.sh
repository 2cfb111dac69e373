#!/usr/bin/env bash
# Pods of users with slices of emulated GPUs: an unmodified CUDA program keeps to its time and its
# memory, is resized by its annotations, and gives back all that it had. Nodes say what GPUs they
# have.
. "$(dirname "$0")/common.sh"
set -E
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; trap - ERR; explain; kubectl -n team describe pods' ERR

# /usr/local/nvidia has the emulated driver and the devices' file, as NVIDIA's runtime brings a real
# driver and its devices; and the programs of this test.
driver=$(mktemp -d)
mkdir "$driver"/lib64
cp build/release/emulated/* "$driver"/lib64
cp build/release/cuda_{greedy,memory} build/release/replay_server \
  build/release/launches/launches/resnet50 "$driver"
nvidia=$driver manifests=tests/kube/gpus install_on_nodes
rm -r "$driver"
kubectl create namespace team
kubectl label namespace team sluice.dev/slices=enabled

# pod NAME QUOTA MEMORY COMMAND…. The emulated driver knows processes by their ids on the node.
pod() {
  local name=$1 quota=$2 memory=$3 words; shift 3
  words=$(printf '"%s",' "$@")
  kubectl apply -f - <<POD
apiVersion: v1
kind: Pod
metadata:
  name: $name
  namespace: team
  annotations: {sluice.dev/device: cuda, sluice.dev/quota: "$quota", sluice.dev/memory: $memory}
spec:
  hostPID: true
  terminationGracePeriodSeconds: 1
  containers:
    - name: cuda
      image: localhost/sluice:dev
      command: [${words%,}]
      env: [{name: SLUICE_EMULATED_GPU, value: /usr/local/nvidia/gpus}]
POD
}
field() { kubectl -n team get pod "$1" -o "jsonpath={$2}"; }
running() { [ "$(field "$1" .status.phase)" = Running ]; }
event() { kubectl -n team get events -o 'jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}' | grep -c "$1"; }  # all is read: a broken pipe would fail it
# What the programs of a Pod's node used of its GPUs in three seconds, in per cent, by the devices.
used() {
  build/release/emulated_gpus "$SLUICE_CLUSTER/$(field "$1" .spec.nodeName)/nvidia/gpus" use 3 |
    awk '{ sum += $3 } END { print int(sum) }'
}
uses() { local now; now=$(used "$1"); echo "$1 uses $now %"; [ "$now" -ge "$2" ] && [ "$now" -le "$3" ]; }
capacity() { kubectl get node "$1" -o 'jsonpath={.status.capacity.sluice\.dev/gpu-permille}'; }
has() { [ "$(capacity "$1")" = "$2" ]; }

# The API server writes 2000 as 2k.
until_true 20 has node1 2k
until_true 20 has node2 2k

pod busy '20%' 256Mi /usr/local/nvidia/cuda_greedy kernel
until_true 60 running busy
until_true 10 event 'SliceHeld.*20%.*GPU'
[ "$(field busy '.spec.containers[0].resources.limits.sluice\.dev/gpu-permille')" = 200 ]
until_true 20 uses busy 14 22
kubectl -n team annotate pod busy --overwrite 'sluice.dev/quota=50%'
until_true 10 event 'SliceResized.*50%'
until_true 20 uses busy 40 53
uses busy 40 53

# memory NAME LINE…: what the driver answers to each (tests/programs/cuda_memory.cc).
memory() {
  local name=$1; shift
  kubectl -n team exec "$name" -- sh -c "printf '%s\n' $(printf "'%s' " "$@") | /usr/local/nvidia/cuda_memory"
}
full='^2 '  # CUDA_ERROR_OUT_OF_MEMORY; a context takes 256 MiB
pod small '10%' 512Mi sleep 1000
until_true 60 running small
[ "$(memory small 'plain 100' | grep -c '^0 ')" = 2 ]
memory small 'plain 400' | grep -c "$full"
kubectl -n team annotate pod small --overwrite sluice.dev/memory=740Mi
allocates() { [ "$(memory small "plain $1" | grep -c '^0 ')" = 2 ]; }
until_true 10 allocates 400
memory small 'plain 600' | grep -c "$full"

refused 'cpu and cuda' kubectl -n team annotate pod small --overwrite sluice.dev/device=tpu
refused 'has all SMs' kubectl -n team annotate pod small --overwrite sluice.dev/sm=50%
refused 'make it anew' kubectl -n team annotate pod small --overwrite sluice.dev/{device=cpu,memory-}
refused "agent alone" kubectl -n team annotate pod small --overwrite sluice.dev/gpu=GPU-0

# All of a node's GPU is free again.
kubectl -n team delete pod busy small --wait
pod whole1 '100%' 1000Mi sleep 1000
until_true 60 running whole1
node=$(field whole1 .spec.nodeName)
kubectl -n team delete pod whole1 --wait

# A function's Pod is held in the same way; what it holds, Pods of users do not get.
kubectl apply -f tests/kube/gpu_function.yaml
asks() { # LINES: what the driver answers to them in the function's Pod
  tools/cluster enter curl -sf -m 10 --data-binary "$(printf '%s\n' "$@")" "$gateway/functions/gpu/"
}
until_true 60 asks 'plain 100'
asks 'plain 600' | grep -c "$full"
less() { [ "$(capacity node1)" != "$(capacity node2)" ]; }
until_true 10 less
kubectl annotate pod -l sluice.dev/function=gpu --overwrite sluice.dev/slice=wrong
rewritten() { kubectl get pod -l sluice.dev/function=gpu -o yaml | grep -c 'sluice.dev/slice: sm 100%'; }
until_true 10 rewritten
kubectl delete -f tests/kube/gpu_function.yaml
less_no_more() { ! less; }
until_true 60 less_no_more

build/release/emulated_gpus "$SLUICE_CLUSTER/$node/nvidia/gpus" fail 0
until_true 20 has "$node" 1k
kubectl get node "$node" -o 'jsonpath={.metadata.annotations.sluice\.dev/devices}' | grep 'cuda0.*fails'
kubectl get events -o 'jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}' | grep 'DeviceFails cuda0'
