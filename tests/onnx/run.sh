#!/usr/bin/env bash
# Exports all cases and runs them in ONNX Runtime: run.sh <onnx_cases> <folder> <peers>
# The runtime is looked for in $SADDLE_PEERS, else in <peers>; without it the test is skipped.
set -euo pipefail
skip() {
  echo "skipped: $*"
  exit 77
}

export SADDLE_PEERS=${SADDLE_PEERS:-$3}
command -v node >/dev/null || skip "node is not installed"
[[ -d $SADDLE_PEERS/node_modules/onnxruntime-node ]] ||
  skip "there is no onnxruntime-node in $SADDLE_PEERS: npm install --prefix $SADDLE_PEERS --ignore-scripts onnxruntime-node"
"$1" "$2"
node "$(dirname "${BASH_SOURCE[0]}")/run.mjs" "$2"
