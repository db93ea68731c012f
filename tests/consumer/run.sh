#!/usr/bin/env bash
# run.sh <mode>: uses saddle in one of the ways a user would. ctest sets SOURCE_DIR, BUILD_DIR and the compiler settings.
#   install|core_only|build_tree|subdirectory|pkg_config   builds and runs the consumer beside this file
#   example <name>                                         builds and runs examples/<name> against the prefix
#   python                                                 uses the Python package of the prefix
set -euo pipefail

mode=$1
work=$BUILD_DIR/consumer/${2:-$mode}
prefix=$BUILD_DIR/consumer/prefix
rm -rf "$work"
mkdir -p "$work"

# run <folder> <program> <option>...: builds a program of a project with these options of cmake, and runs it.
run() {
  local project=$1 program=$2
  shift 2
  "$CMAKE" -S "$SOURCE_DIR/$project" -B "$work" -G "$GENERATOR" -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_CXX_FLAGS="$CXXFLAGS" "$@"
  "$CMAKE" --build "$work" --parallel 2 --target "$program"
  "$work/$program"
}

consumer() { run tests/consumer consumer -DSADDLE_VERSION="$VERSION" "$@"; }

# Installed headers include installed headers only.
check_includes() {
  local name
  grep -rhoE '^#include "saddle/[^"]+"' "$prefix/include" | sort -u | cut -d'"' -f2 | while read -r name; do
    if [[ ! -f $prefix/include/$name ]]; then
      echo "an installed header includes $name, which is not installed"
      return 1
    fi
  done
}

case $mode in
  install)
    # Installed in one place, moved to another: the package must not remember where it was.
    rm -rf "$prefix" "$prefix.first"
    "$CMAKE" --install "$BUILD_DIR" --prefix "$prefix.first" >/dev/null
    mv "$prefix.first" "$prefix"
    check_includes
    consumer -DCMAKE_PREFIX_PATH="$prefix" -DHAS_TORCH="$TORCH"
    if [[ -x $prefix/bin/saddle ]]; then "$prefix/bin/saddle" --help >/dev/null; fi
    ;;
  core_only)
    # What somebody without torch installs.
    for component in runtime dev; do
      "$CMAKE" --install "$BUILD_DIR" --prefix "$work/prefix" --component "$component" >/dev/null
    done
    [[ -z $(find "$work/prefix" -name '*orch*' -o -name nn) ]]
    consumer -DCMAKE_PREFIX_PATH="$work/prefix" -DHAS_TORCH=OFF
    ;;
  build_tree)
    consumer -Dsaddle_DIR="$BUILD_DIR" -DHAS_TORCH="$TORCH"
    ;;
  subdirectory)
    # The flags of the build under test. ccache has these objects only from an earlier run of this: paths differ.
    consumer -DSADDLE_SOURCE="$SOURCE_DIR" -DBUILD_SHARED_LIBS="$SHARED" -DSADDLE_WERROR="$WERROR" \
      -DCMAKE_CXX_FLAGS_DEBUG="$DEBUG_FLAGS" -DSADDLE_TORCH="$TORCH" -DSADDLE_PYTHON=OFF
    ;;
  pkg_config)
    pc=$(find "$prefix" -name saddle.pc -printf '%h')
    export PKG_CONFIG_PATH=$pc${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    [[ $(pkg-config --modversion saddle) == "$VERSION" ]]
    static=()
    [[ $SHARED == ON ]] || static=(--static)
    # shellcheck disable=SC2046,SC2086
    "$CXX" -std=c++20 $CXXFLAGS "$SOURCE_DIR/tests/consumer/main.cpp" -o "$work/consumer" \
      $(pkg-config --cflags --libs "${static[@]}" saddle)
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir saddle) "$work/consumer"
    ;;
  example)
    run "examples/$2" "$2" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER_LAUNCHER="$LAUNCHER"
    ;;
  python)
    # From anywhere, with nothing but PYTHONPATH, and with no library of the build folder.
    cd "$work"
    export PYTHONPATH=$prefix/lib/python3/dist-packages
    "$PYTHON" -B - "$prefix" <<'PYTHON'
import sys, torch, saddle
q = torch.randn(2, 4, 33, 8, requires_grad=True)
y = saddle.attention(q, q, q, "softmax+bn(beta=0.6)")
y.sum().backward()
assert y.shape == q.shape and torch.isfinite(q.grad).all()
with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if "libsaddle" in line or "/saddle/_core" in line}
assert len(loaded) == 3 and all(name.startswith(sys.argv[1]) for name in loaded), loaded
PYTHON
    "$PYTHON" -B -m saddle doctor
    ;;
  *)
    echo "run.sh: unknown mode '$mode'" >&2
    exit 2
    ;;
esac
