#!/bin/bash
# SPDX-License-Identifier: MIT
# The systemd units in a Debian guest: sessions run before the system's services do, and a shutdown
# writes their last packets. The LSB script in a directory without systemd.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/slow/lib.sh"

# A Debian system with systemd, in $cache/system.
need_system() {
  [ "$(id -u)" = 0 ] || t_skip "not root"
  [ ! -f "$cache/system/.done" ] || return 0
  command -v debootstrap >/dev/null || t_skip "no debootstrap"
  rm -rf "$cache/system"
  timeout 400 debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps bookworm "$cache/system" \
    >"$T/debootstrap.log" 2>&1 || t_skip "debootstrap fails: $(tail -1 "$T/debootstrap.log")"
  rm -rf "$cache"/system/usr/share/doc "$cache"/system/usr/share/locale "$cache"/system/usr/share/man \
    "$cache"/system/var/lib/apt/lists/* "$cache"/system/var/cache/apt/*
  touch "$cache/system/.done"
}

copy_rutile() {
  mkdir -p "$1/usr/bin"
  cp "$RUTILE" "$1/usr/bin/rutile"
  for lib in $(ldd "$RUTILE" | grep -o '/[^ ]*'); do
    [ -e "$1$lib" ] || install -D "$lib" "$1$lib"
  done
}

make_system() {
  cp -a "$cache/system" root
  copy_rutile root
  cp "$SRC"/packaging/rutile.service "$SRC/packaging/rutile@.service" root/etc/systemd/system
  mkdir -p root/etc/rutile/sessions.d
  printf 'event = sched_process_exec\noutput = /var/log/rutile/boot\n' >root/etc/rutile/sessions.d/boot.conf
  printf 'event = sched_process_exec\noutput = /var/log/rutile/one\n' >root/etc/rutile/sessions.d/one.conf
  printf 'flight = yes\nevent = sched_process_exec\nbuffer = 4M\n' >root/etc/rutile/sessions.d/flight.conf
  for m in early before-stop after-stop last; do
    printf '#!/bin/sh\nexit 0\n' >root/usr/bin/mark-$m
    chmod +x root/usr/bin/mark-$m
  done
  cp "$SRC/tests/slow/guest-boot.sh" root/usr/bin/guest-boot
  chmod +x root/usr/bin/guest-boot
  cat >root/etc/systemd/system/mark-early.service <<'EOF'
[Unit]
DefaultDependencies=no
After=sysinit.target
Before=basic.target
[Service]
Type=oneshot
ExecStart=/usr/bin/mark-early
[Install]
WantedBy=basic.target
EOF
  cat >root/etc/systemd/system/guest-boot.service <<'EOF'
[Unit]
After=multi-user.target rutile@one.service
[Service]
ExecStart=/usr/bin/guest-boot up
[Install]
WantedBy=multi-user.target
EOF
  # Started before the sessions, so stopped after them.
  cat >root/etc/systemd/system/guest-export.service <<'EOF'
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=rutile.service
Conflicts=shutdown.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/usr/bin/guest-boot down
[Install]
WantedBy=sysinit.target
EOF
  chroot root systemctl enable rutile.service rutile@one.service mark-early.service guest-boot.service \
    guest-export.service >/dev/null 2>&1
  ln -sf /dev/null root/etc/systemd/system/getty.target
  ln -sf /sbin/init root/init
  (cd root && find . -path ./proc -prune -o -path ./sys -prune -o -print | cpio -o -H newc --quiet) >initramfs
  mkdir -p extra/proc extra/sys
  (cd extra && find . | cpio -o -H newc --quiet) >>initramfs
  rm -rf root
}

test_boot() {
  need_kernel
  need_system
  make_system
  RUTILE_VM_MEMORY=2048 python3 "$SRC/tests/slow/guest_run.py" "$kernel" initramfs "$PWD/serial" "$PWD/out" 400
  tr -d '\r' <serial | grep -a '^\(LIST\|ACTIVE\|STATUS\|WHEN\|LEFT\|RELOADED\|FAILED\|DOWN\|EXPORTED\)' >said || true
  cat said
  grep -q EXPORTED said
  if grep -q FAILED said; then return 1; fi
  [ "$(grep -c '^LIST .*records' said)" = 3 ]
  [ "$(grep -c '^ACTIVE active' said)" = 2 ]
  [ "$(grep -c '^STATUS .*records' said)" = 3 ]
  if grep -q '^LEFT one' said; then return 1; fi
  # The service started them all again, and at the end all were stopped.
  [ "$(grep -c '^RELOADED .*records' said)" = 3 ]
  if grep -q '^DOWN .*records' said; then return 1; fi
  base64 -d out | tar xz --warning=no-timestamp
  for t in boot one boot-1 snap; do readers $t >/dev/null; cp bt2.out $t.text; done
  # It records before the services of the system start.
  grep -q 'sched_process_exec.*"/usr/bin/mark-early"' boot.text
  grep -q 'sched_process_exec.*"/usr/bin/mark-before-stop"' one.text
  if grep -q 'mark-after-stop' one.text; then return 1; fi
  # Stopped by the shutdown: the last packet is there.
  grep -q 'sched_process_exec.*"/usr/bin/mark-last"' boot-1.text
}

# Without systemd: an init script in a directory that has busybox and nothing else.
test_lsb() {
  need_bpf
  [ -x /bin/busybox ] || t_skip "no busybox (busybox-static)"
  mkdir -p root/bin root/etc/init.d root/etc/rutile/sessions.d root/proc root/sys root/var/log root/dev root/tmp
  cp /bin/busybox root/bin
  ln -s busybox root/bin/sh
  copy_rutile root
  cp "$SRC/packaging/rutile.init" root/etc/init.d/rutile
  n=lsb$$
  printf 'event = syscall:getppid\n' >root/etc/rutile/sessions.d/$n.conf
  unshare -m sh -euc '
    mount --rbind /proc root/proc
    mount --rbind /sys root/sys
    mount --rbind /dev root/dev
    env -u RUTILE chroot root /etc/init.d/rutile start
    env -u RUTILE chroot root /etc/init.d/rutile start
    env -u RUTILE chroot root /etc/init.d/rutile status >status
    python3 -c "import os; [os.getppid() for i in range(100)]"
    env -u RUTILE chroot root /etc/init.d/rutile restart '$n'
    python3 -c "import os; [os.getppid() for i in range(50)]"
    env -u RUTILE chroot root /etc/init.d/rutile force-reload
    env -u RUTILE chroot root /etc/init.d/rutile stop
    rc=0
    env -u RUTILE chroot root /etc/init.d/rutile status >status2 || rc=$?
    [ $rc = 3 ]'
  grep -q "$n *records" status
  grep -q "$n *not running" status2
  n=0
  for t in root/var/log/rutile/lsb*; do
    [ -d "$t" ] || continue
    readers "$t" >/dev/null
    n=$((n + $(grep -c syscall_entry_getppid bt2.out || true)))
  done
  [ "$n" -ge 150 ]
}

t_case "the LSB script without systemd" test_lsb
t_case "systemd: early at boot, until the shutdown" test_boot
t_done
