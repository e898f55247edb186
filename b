usage: rutile stat [OPTIONS] TRACE...

show what traces hold: events by name, rates, streams, losses, size.

Options:
      --begin TIME           from this time on: [YYYY-MM-DD ]HH:MM:SS[.NS] or seconds
      --end TIME             up to this time
      --clock-gmt            times in UTC, not in the local zone
      --json                 one JSON object

The manual page rutile-stat(1) says more.
