#!/usr/bin/env bash
# Builds the Kubernetes of cluster_kubernetes_test, where that is wanted.   Exit 77: it is not, or it can't be had.
set -euo pipefail
if [[ ${LUTHIER_TEST_KUBERNETES:-} != 1 ]]; then
  echo "skipped: it takes Go twelve minutes of a processor; LUTHIER_TEST_KUBERNETES=1 builds it"
  exit 77
fi
exec "$(dirname "${BASH_SOURCE[0]}")/../../tools/cluster/kubernetes.sh" build
