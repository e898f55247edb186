# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# The traces and reference outputs of tests/data/cases, unpacked once into the build directory. `cases` prints the
# directory.

cases() {
  c_out=$(dirname "$RUTILE")/cases
  (
    flock 9
    if [ ! -f "$c_out/.done" ] || [ -n "$(find "$SRC/tests/data/cases" -name '*.tar.xz' -newer "$c_out/.done")" ]; then
      rm -rf "$c_out"
      mkdir -p "$c_out"
      for c_tar in "$SRC"/tests/data/cases/*.tar.xz; do tar -C "$c_out" -xJf "$c_tar"; done
      touch "$c_out/.done"
    fi
  ) 9>"$c_out.lock" >&2 || return
  echo "$c_out"
}
