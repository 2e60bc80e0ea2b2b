#!/usr/bin/env bash
# Makes luthier/luthier.pb, the description of all calls and messages that the package reads at run time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proto="$here/../../proto"
protoc -I "$proto" --include_imports --descriptor_set_out="$here/luthier/luthier.pb.new" \
  "$proto"/luthier/v1/{errors,study,trial,study_service,worker_service}.proto
mv "$here/luthier/luthier.pb.new" "$here/luthier/luthier.pb"
