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

# Sets $kernel: that of a release of Debian (bullseye 5.10, bookworm 6.1, trixie 6.12), from the cache or the archive. Apt reads
# the release's list in a directory of its own.
need_kernel_of() {
  command -v qemu-system-x86_64 >/dev/null || t_skip "no qemu-system-x86_64"
  [ -x /bin/busybox ] || t_skip "no busybox (busybox-static)"
  kernel=$(ls "$cache/$1"/boot/vmlinuz-* 2>/dev/null | head -1) || true
  [ -n "$kernel" ] && return
  apt=$T/apt-$1
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  echo "deb ${DEBIAN_MIRROR:-http://deb.debian.org/debian} $1 main" >"$apt/sources.list"
  cat >"$apt/apt.conf" <<END
APT::Architecture "amd64";
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
END
  APT_CONFIG=$apt/apt.conf apt-get update >/dev/null 2>&1 || t_skip "cannot read the packages of $1"
  pkg=$(APT_CONFIG=$apt/apt.conf apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
  [ -n "$pkg" ] || t_skip "$1 has no kernel"
  (cd "$apt" && APT_CONFIG=$apt/apt.conf apt-get download "$pkg" >/dev/null 2>&1) || t_skip "cannot download $pkg"
  mkdir -p "$cache/$1"
  dpkg-deb -x "$apt/$pkg"_*.deb "$cache/$1"
  kernel=$(ls "$cache/$1"/boot/vmlinuz-* | head -1)
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
