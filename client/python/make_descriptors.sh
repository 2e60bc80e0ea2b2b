#!/usr/bin/env bash
# Makes luthier/luthier.pb, the description of all calls and messages that the package reads at run time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proto="$here/../../proto"
new=$(mktemp "$here/luthier/luthier.pb.XXXXXX")  # Others may be making it, too.
protoc -I "$proto" --include_imports --descriptor_set_out="$new" \
  "$proto"/luthier/v1/{errors,study,trial,study_service,worker_service,admin_service}.proto
chmod 644 "$new"
mv "$new" "$here/luthier/luthier.pb"
