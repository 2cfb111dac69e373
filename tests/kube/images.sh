#!/usr/bin/env bash
# A program of an image of its own: while no node has the image, a condition and an Event say so; then
# it serves, with a variable of a Secret, beside a function of Sluice's image.
. "$(dirname "$0")/common.sh"
set -E
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; trap - ERR; explain' ERR

install_on_nodes
busybox=$(tools/cluster get)/root/usr/bin/busybox
python3 - "$busybox" "$SLUICE_CLUSTER" <<'IMAGE'
import pathlib, sys
sys.path.insert(0, "tools")
from kube import archive
folder = pathlib.Path(sys.argv[2])
with archive.tarfile.open(folder / "greeter.layer", "w") as tar:
    archive.add_bytes(tar, "busybox", pathlib.Path(sys.argv[1]).read_bytes(), 0o755)
    archive.add_folder(tar, "tmp", 0o1777)
archive.write_image(folder / "greeter.tar", "localhost/greeter:1", [folder / "greeter.layer"], {})
IMAGE

kubectl apply -f tests/kube/mlp.yaml
kubectl create secret generic greeter-key --from-literal=value=sesame
kubectl apply -f - <<'FUNCTION'
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: greeter}
spec:
  server:
    image: localhost/greeter:1
    command: [/busybox, sh, -c, 'echo "$KEY" >/tmp/index.html; exec /busybox httpd -f -p $PORT -h /tmp']
    env: {KEY: {file: greeter-key}}
    protocol: http
    startTimeout: 10s
FUNCTION
condition() { kubectl get ifn greeter -o "jsonpath={.status.conditions[?(@.type==\"$1\")]}"; }
says() { condition "$1" | grep "\"reason\":\"$2\"" | grep -q "$3"; }
event() { kubectl get events -o 'jsonpath={range .items[*]}{.involvedObject.name} {.message}{"\n"}{end}' | grep -q "$1"; }
greets() { [ "$(curl -s "$gateway/functions/greeter/index.html")" = sesame ]; }

until_true 60 says Degraded StartsFail 'Image'
until_true 10 event 'greeter lost.*Image'
condition Ready | grep -q '"status":"False"'
ask --until-first 60
tools/cluster import "$SLUICE_CLUSTER/greeter.tar"
until_true 120 greets
until_true 10 says Ready Serving '1 instance is ready'
until_true 10 says Degraded AsExpected .
ask --rate 10 --seconds 3
