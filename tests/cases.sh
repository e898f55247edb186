# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# The traces and reference outputs that stand beside the checkout (../shared/cases), unpacked once
# into the build folder. `cases` prints the folder, or skips the test when they are not there.

cases() {
  for c_dir in "$SRC/../shared/cases" "$SRC/../../shared/cases"; do
    [ -f "$c_dir/traces.tar.xz" ] || continue
    c_out=$(dirname "$RUTILE")/cases
    (
      flock 9
      if [ ! -f "$c_out/.done" ]; then
        mkdir -p "$c_out"
        for c_tar in "$c_dir"/*.tar.xz; do tar -C "$c_out" -xJf "$c_tar"; done
        touch "$c_out/.done"
      fi
    ) 9>"$c_out.lock" >&2
    echo "$c_out"
    return 0
  done
  return 77
}
