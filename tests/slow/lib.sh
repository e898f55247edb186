# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# What the tests in a virtual machine share; source it after tap.sh.

cache=${RUTILE_VM_CACHE:-${TMPDIR:-/tmp}/rutile-vm-kernel}

# Sets $kernel: Debian's, from the cache or the package archive.
need_kernel() {
  command -v qemu-system-x86_64 >/dev/null || t_skip "no qemu-system-x86_64"
  [ -x /bin/busybox ] || t_skip "no busybox (busybox-static)"
  kernel=$(ls "$cache"/boot/vmlinuz-* 2>/dev/null | head -1) || true
  [ -n "$kernel" ] && return
  pkg=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
  [ -n "$pkg" ] || t_skip "no Debian kernel to be had"
  (cd "$T" && apt-get download "$pkg" >/dev/null 2>&1) || t_skip "cannot download $pkg"
  mkdir -p "$cache"
  dpkg-deb -x "$T/$pkg"_*.deb "$cache"
  kernel=$(ls "$cache"/boot/vmlinuz-* | head -1)
}

# make_initramfs INIT: busybox, rutile with its libraries, and INIT as the first program.
make_initramfs() {
  mkdir -p root/bin root/lib64
  cp /bin/busybox "$RUTILE" root/bin
  for lib in $(ldd "$RUTILE" | grep -o '/[^ ]*'); do
    mkdir -p "root$(dirname "$lib")"
    cp -L "$lib" "root$lib"
  done
  cp "$1" root/init
  chmod +x root/init
  (cd root && find . | cpio -o -H newc --quiet) | gzip -1 >initramfs
}
