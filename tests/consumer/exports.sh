#!/usr/bin/env bash
# exports.sh <nm> <libsaddle.so>: fails if the library exports a name that is not in namespace saddle.
set -euo pipefail

# A name counts by its mangled form: the demangled form of a template begins with its return type.
names=$("$1" --dynamic --defined-only --no-demangle "$2" | awk '{print $NF}')
foreign=$(grep -vE '^_Z(T[a-z0-9_]*|G[A-Z])?NK?6saddle|^_ZT[A-Z]N6saddle' <<<"$names" || true)
count=$(grep -c . <<<"$names")
if [[ -n $foreign ]]; then
  echo "exported, but not in namespace saddle:"
  c++filt <<<"$foreign"
  exit 1
fi
if ((count < 5)); then
  echo "only $count exported names: is SADDLE_API missing?"
  exit 1
fi
echo "$count exported names, all in namespace saddle"
