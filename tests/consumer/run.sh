#!/usr/bin/env bash
# run.sh install|build_tree|subdirectory|pkg_config: builds and runs the consumer in one of the ways a user would.
# ctest sets SOURCE_DIR, BUILD_DIR and the compiler settings.
set -euo pipefail

mode=$1
work=$BUILD_DIR/consumer/$mode
prefix=$BUILD_DIR/consumer/prefix
rm -rf "$work"
mkdir -p "$work"

build_with_cmake() {
  "$CMAKE" -S "$SOURCE_DIR/tests/consumer" -B "$work" -G "$GENERATOR" -DCMAKE_CXX_COMPILER="$CXX" \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_CXX_FLAGS="$CXXFLAGS" "$@"
  "$CMAKE" --build "$work" --parallel 2
  "$work/consumer"
}

case $mode in
  install)
    # Installed in one place, moved to another: the package must not remember where it was.
    rm -rf "$prefix" "$prefix.first"
    "$CMAKE" --install "$BUILD_DIR" --prefix "$prefix.first" >/dev/null
    mv "$prefix.first" "$prefix"
    build_with_cmake -DCMAKE_PREFIX_PATH="$prefix" -DSADDLE_VERSION="$VERSION"
    if [[ -x $prefix/bin/saddle ]]; then "$prefix/bin/saddle" --help >/dev/null; fi
    ;;
  build_tree)
    build_with_cmake -Dsaddle_DIR="$BUILD_DIR" -DSADDLE_VERSION="$VERSION"
    ;;
  subdirectory)
    # The flags of the build under test, so that ccache has every object already.
    build_with_cmake -DSADDLE_SOURCE="$SOURCE_DIR" -DBUILD_SHARED_LIBS="$SHARED" -DSADDLE_WERROR="$WERROR" \
      -DCMAKE_CXX_FLAGS_DEBUG="$DEBUG_FLAGS"
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
  *)
    echo "run.sh: unknown mode '$mode'" >&2
    exit 2
    ;;
esac
