#!/bin/sh
# SPDX-License-Identifier: MIT
# In the guest of test_boot.sh. "up": when the machine is up; "down": when its sessions were stopped.
exec >/dev/ttyS0 2>&1
case $1 in
  up)
    rutile list | sed 's/^/LIST /'
    systemctl is-active rutile.service rutile@one.service | sed 's/^/ACTIVE /'
    rutile service status | sed 's/^/STATUS /'
    systemctl show -p ActiveEnterTimestampMonotonic rutile.service sysinit.target | sed 's/^/WHEN /'
    # One session is stopped by hand, the others by the shutdown.
    /usr/bin/mark-before-stop
    systemctl stop rutile@one.service
    /usr/bin/mark-after-stop
    rutile list | sed 's/^/LEFT /'
    systemctl --no-block reload rutile.service
    # All of them again: the last one, in the order of names, is the one that was stopped.
    for i in $(seq 120); do
      [ "$(rutile list | grep -c records)" -lt 3 ] || break
      sleep 1
    done
    rutile list | sed 's/^/RELOADED /'
    systemctl --failed --no-legend | sed 's/^/FAILED /'
    rutile snapshot flight -o /var/log/rutile/snap
    /usr/bin/mark-last
    systemctl --no-block poweroff
    ;;
  down)
    rutile list | sed 's/^/DOWN /'
    stty -F /dev/ttyS1 raw
    tar cz -C /var/log/rutile . | base64 >/dev/ttyS1
    echo "EXPORTED"
    ;;
esac
