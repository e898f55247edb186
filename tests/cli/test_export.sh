#!/bin/bash
# SPDX-License-Identifier: MIT
# Results for databases of metrics, against the same results as LAMI.
. "$SRC/tests/tap.sh"
. "$SRC/tests/cases.sh"
trap 'rm -rf "$t_root"' EXIT
TRACE=$(cases)/ref/basic-kernel-analysis/kernel

# What LAMI says, as a list of numbers; and what the three formats say.
test_values() {
  "$RUTILE" syscallstats --mi --no-progress "$TRACE" >lami.json
  for f in openmetrics clickhouse otlp; do "$RUTILE" export --to $f --host here syscallstats "$TRACE" >$f; done
  python3 - <<'PY'
import json, re

lami = json.load(open("lami.json"))["results"]
rows = sum(len(t["data"]) for t in lami)
assert rows > 3, rows
# Its numbers: plain, or with their class.
numbers = ("number", "ratio", "duration", "size", "timestamp")
cells = [c for t in lami for r in t["data"] for c in r]
want = [c for c in cells if isinstance(c, (int, float)) and not isinstance(c, bool)]
want = sorted(want + [c["value"] for c in cells if isinstance(c, dict) and c.get("class") in numbers])
assert len(want) > 3

house = [json.loads(line) for line in open("clickhouse")]
assert len(house) == rows
assert all(h["host"] == "here" and h["analysis"] == "syscallstats" and h["end_ns"] > h["begin_ns"] for h in house)
values = [v for h in house for v in h["values"].values()]

otlp = json.load(open("otlp"))["resourceMetrics"]
assert otlp[0]["resource"]["attributes"] == [{"key": "host.name", "value": {"stringValue": "here"}}]
points = [p for m in otlp[0]["scopeMetrics"][0]["metrics"] for p in m["gauge"]["dataPoints"]]
assert sorted(p["asDouble"] for p in points) == sorted(values)
assert sorted(values) == want

text = open("openmetrics").read()
assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
families, series = set(), set()
family = None
for line in text.splitlines()[:-1]:
    m = re.fullmatch(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) gauge", line)
    if m:
        family = m.group(1)
        assert family not in families, family
        families.add(family)
    elif not line.startswith("# HELP " + family + " "):
        m = re.fullmatch(r'([a-z0-9_]+)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*",?)*\}) (\S+) (\d+\.\d{9})', line)
        assert m and m.group(1) == family, line
        assert m.group(1) + m.group(2) not in series, line
        series.add(m.group(1) + m.group(2))
        float(m.group(3))
assert len(series) == len(values)
PY
}

# To a server, report by report; and one that refuses them.
test_post() {
  cat >server.py <<'PY'
import http.server
class Take(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        good = self.path.startswith("/?query=INSERT")
        if good:
            open("got", "ab").write(body)
        open("types", "a").write(self.headers["Content-Type"] + "\n")
        self.send_response(200 if good else 400)
        self.end_headers()
    def log_message(self, *args): pass
s = http.server.HTTPServer(("127.0.0.1", 0), Take)
open("port.new", "w").write(str(s.server_port))
import os; os.rename("port.new", "port")
s.serve_forever()
PY
  python3 server.py &
  server=$!
  t_wait test -s port
  "$RUTILE" export --to clickhouse --host here --url "http://127.0.0.1:$(cat port)/?query=INSERT%20INTO%20rutile" cputop -r 100ms "$TRACE"
  "$RUTILE" export --to clickhouse --host here cputop -r 100ms "$TRACE" | cmp - got
  [ "$(jq -r .begin_ns got | sort -u | wc -l)" -gt 1 ]
  not "$RUTILE" export --to otlp --url "http://127.0.0.1:$(cat port)/other" cputop "$TRACE" 2>err
  grep -q 'a report is lost: .* answers with status 400' err
  [ "$(sort -u types)" = application/json ]
  "$RUTILE" export --to openmetrics --url "http://127.0.0.1:$(cat port)/?query=INSERT" cputop "$TRACE"
  [ "$(tail -1 types)" = 'application/openmetrics-text; version=1.0.0; charset=utf-8' ]
  kill $server
}

# A server that is busy, fails, and hangs up in the middle is asked again, later each time; one that refuses is not. Each report is taken
# once, and none is missing. A server that stays away loses a report, and is then asked once for each until it takes one.
test_retry() {
  cat >server.py <<'PY'
import http.server, os, time
answers = {"/": [429, 503, "cut", "slow"], "/away": [503] * 8 + [200, 503], "/refused": [400] * 9}
class Take(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = answers[self.path].pop(0) if answers[self.path] else 200
        print(self.path, answer, time.monotonic(), flush=True, file=open("asked", "a"))
        if answer == "cut":
            self.wfile.write(b"HTTP/1.")
            self.close_connection = True
            return
        if answer == "slow":
            time.sleep(2)
            answer = 200
        if answer == 200:
            with open("got" + self.path.strip("/"), "ab") as got:
                got.write(body)
        self.send_response(answer)
        self.end_headers()
    def log_message(self, *args): pass
s = http.server.HTTPServer(("127.0.0.1", 0), Take)
open("port.new", "w").write(str(s.server_port))
os.rename("port.new", "port")
s.serve_forever()
PY
  python3 server.py &
  server=$!
  t_wait test -s port
  url=http://127.0.0.1:$(cat port)
  "$RUTILE" export --to clickhouse --host here --url "$url/" cputop -r 100ms "$TRACE"
  "$RUTILE" export --to clickhouse --host here cputop -r 100ms "$TRACE" | cmp - got
  python3 - <<'PY'
times = [float(line.split()[2]) for line in open("asked")]
gaps = [b - a for a, b in zip(times, times[1:])][:3]
assert gaps[0] >= 0.2 and gaps[1] >= 0.4 and gaps[2] >= 0.8, gaps
PY
  not "$RUTILE" export --to otlp --url "$url/refused" cputop "$TRACE" 2>err
  grep -q 'a report is lost: .* answers with status 400' err
  [ "$(grep -c '^/refused' asked)" = 1 ]
  # Six tries for the first report, one for the second and the third; the fourth is taken, so that the fifth has a second try.
  not "$RUTILE" export --to clickhouse --host here --url "$url/away" cputop -r 100ms "$TRACE" 2>err
  [ "$(grep -c 'a report is lost: .* answers with status 503' err)" = 3 ]
  python3 - <<'PY'
import json
of = lambda path: [json.loads(line)["begin_ns"] for line in open(path)]
begins = sorted(set(of("got")))
assert len(begins) > 5 and of("gotaway") == [t for t in of("got") if t in begins[3:]], begins
asked = [line.split()[1] for line in open("asked") if line.startswith("/away ")]
assert asked == ["503"] * 8 + ["200", "503"] + ["200"] * (len(begins) - 4), asked
PY
  # A host that does not exist is asked for once a report: six times with their pauses would be a minute and more.
  rc=0
  timeout 30 "$RUTILE" export --to clickhouse --url http://no..host/ cputop -r 100ms "$TRACE" 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(grep -c 'a report is lost: cannot find the host' err)" -gt 10 ]
  kill $server
}

# What receivers require, by their own rules: OpenMetrics by Prometheus's strict parser, OTLP by the fields of its messages, and columns
# of ClickHouse's JSONEachRow.
test_strict() {
  # Debian's, also where another python3 comes first.
  for python in python3 /usr/bin/python3 ""; do
    [ -n "$python" ] || t_skip "no python3-prometheus-client"
    ! $python -c 'import prometheus_client.openmetrics.parser' 2>/dev/null || break
  done
  for a in cputop syscallstats iousagetop schedstats irqstats; do
    for f in openmetrics clickhouse otlp; do "$RUTILE" export --to $f --host 'we"b\1' $a -r 500ms "$TRACE" >$f; done
    $python "$SRC/tests/cli/strict_export.py" $a 'we"b\1'
  done
}

# What grows is served; here a trace that does not grow, until the server is ended.
test_serve() {
  "$RUTILE" serve-metrics --listen "$PWD/metrics" --host here syscallstats -r 100ms --no-intersection "$TRACE" 2>err &
  server=$!
  served() { grep -q '^rutile_.*host="here"' metrics; }
  t_wait served
  kill $server
  wait $server || true
  tail -1 metrics | grep -qx '# EOF'
}

test_mistakes() {
  bad() { # MESSAGE ARGUMENTS
    message=$1
    shift
    not "$RUTILE" "$@" 2>err
    grep -qF -- "$message" err
  }
  bad '--to what?' export cputop "$TRACE"
  bad "'x' is none of: openmetrics" export --to x cputop "$TRACE"
  bad 'which analysis?' export --to otlp
  bad "'view' is not an analysis" export --to otlp view "$TRACE"
  bad 'which trace?' export --to otlp cputop
  bad 'which analysis?' serve-metrics
  bad 'which cannot be exported' export --to otlp cputop --hosts .
  # Refused before anything is read: nothing answers at these places.
  one='this verb reads one host: nats://SERVER/STREAM/HOST'
  bad "$one" export --to otlp cputop nats://127.0.0.1:1/T
  bad "$one" export --to otlp cputop 'nats://127.0.0.1:1/T/web*'
  bad "$one" series nats://127.0.0.1:1/T
  bad "$one" series 'nats://127.0.0.1:1/T/web[12]/s'
  bad 'diff reads one host a side' diff "$TRACE" 'nats://127.0.0.1:1/T/web*'
  bad 'diff reads one host a side' diff nats://127.0.0.1:1/T "$TRACE"
  bad 'cannot connect' series nats://127.0.0.1:1/T/web1
}

t_case "the values are those of LAMI" test_values
t_case "reports are sent to a server" test_post
t_case "a server that is busy or hangs up is asked again, later each time" test_retry
t_case "strict receivers accept all three formats" test_strict
t_case "reports of a trace that grows are served" test_serve
t_case "mistakes are named" test_mistakes
t_done
