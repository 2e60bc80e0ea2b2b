#!/usr/bin/env bash
# The base and the overlay of deploy/k8s are built by kubectl, and workers in them are told what `luthier worker up --on k8s` tells them.
#   k8s_test.sh SOURCE_DIR      Exit 77: there is no kubectl with Kustomize.
set -euo pipefail
cd "$1"
if ! kubectl kustomize --help > /dev/null 2>&1; then
  echo "skipped: there is no kubectl with Kustomize"
  exit 77
fi
base=$(kubectl kustomize deploy/k8s/base)
overlay=$(kubectl kustomize deploy/k8s/workers-deployment)
has() { # TEXT, PATTERN, WHAT
  grep -qE "$2" <<< "$1" || { echo "$3: nothing matches $2"; exit 1; }
}
has "$base" '^kind: Job' base
has "$base" '^kind: StatefulSet' base
has "$base" '^  replicas: 1$' base
has "$overlay" '^kind: Deployment' workers-deployment
has "$overlay" '^kind: StatefulSet' workers-deployment
! grep -q '^kind: Job' <<< "$overlay" || { echo "workers-deployment: the Job of the base is still there"; exit 1; }
for text in "$base" "$overlay"; do
  has "$text" 'image: luthier-worker:1' images
  has "$text" 'image: luthier-server:1' images
done
# The rules by which a Job takes a pod's end are those of the command line.
want=$(sed -n '/podFailurePolicy:/,/template:/p' tests/cluster/golden/k8s.txt | grep -o 'values: \[[0-9, ]*\]\|DisruptionTarget')
have=$(sed -n '/podFailurePolicy:/,/template:/p' deploy/k8s/base/workers.yaml | grep -o 'values: \[[0-9, ]*\]\|DisruptionTarget')
[[ $want == "$have" ]] || { echo "deploy/k8s/base/workers.yaml: podFailurePolicy differs from that of luthier worker up"; exit 1; }
