#!/usr/bin/env bash
# Alert rules and the board name metrics that there are; rules are right, and raised by the troubles that they are for.
#   monitoring_test.sh SOURCE_DIR      Exit 77: promtool is not installed (tools/install_packages.sh cluster).
set -euo pipefail
cd "$1"
status=0
python3 -m json.tool deploy/monitoring/grafana.json > /dev/null
# A histogram's series have a suffix.
while read -r name; do
  if ! grep -q "\"${name}\"" server/metrics/metrics.cc && ! grep -q "\"${name%_bucket}\"" server/metrics/metrics.cc; then
    echo "deploy/monitoring names $name, which is no metric of server/metrics/metrics.cc"
    status=1
  fi
done < <(grep -oh 'luthier_[a-z_]*' deploy/monitoring/alerts.yaml deploy/monitoring/grafana.json | sort -u)
((status == 0)) || exit 1
promtool=$(command -v promtool || true)
if [[ -z $promtool ]]; then
  echo "skipped: promtool is not installed (tools/install_packages.sh cluster)"
  exit 77
fi
"$promtool" check rules deploy/monitoring/alerts.yaml
"$promtool" test rules deploy/monitoring/alerts_test.yaml
