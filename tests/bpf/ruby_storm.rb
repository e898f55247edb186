# SPDX-License-Identifier: MIT
# ruby_storm.rb GO COUNTS: deep recursion, Thread#kill, throw, exceptions, break, and many children that fork, exec,
# exit or are killed. Each method counts its own calls; COUNTS gets them as lines of a map @.
$n = Hash.new(0)
$lock = Mutex.new
class Order
  def deep(n)
    $n[:deep] += 1
    deep(n + 1)
  end
  def killed
    $lock.synchronize { $n[:killed] += 1 }
    sleep
  end
  def thrown(n)
    $n[:thrown] += 1
    n.zero? ? throw(:out) : thrown(n - 1)
  end
  def raised(n)
    $n[:raised] += 1
    n.zero? ? raise('x') : raised(n - 1)
  ensure
    $n[:ensured] += 1
  end
  def child(n)
    $n[:child] += 1
  end
  def broken
    $lock.synchronize { $n[:broken] += 1 }
    yield
  end
end
File.write("#{ARGV[0]}.up", '')
sleep 0.01 until File.exist?(ARGV[0])
o = Order.new
3.times { begin; o.deep(0); rescue SystemStackError; end }
40.times { t = Thread.new { o.killed }; Thread.pass until t.stop?; t.kill; t.join }
100.times { catch(:out) { o.thrown(10) } }
100.times { o.raised(10) rescue nil }
20.times { |i| [1].each { o.broken { break } } }
total = 0
readers = 200.times.map do |i|
  r, w = IO.pipe
  pid = fork do
    $n.clear
    r.close
    10.times { o.child(1) }
    Thread.new { 5.times { o.child(2) } }.join
    if i % 5 == 0
      w.write($n[:child].to_s); w.close
      exec('true')
    end
    if i % 7 == 0
      pid = fork { $n.clear; 3.times { o.child(3) }; w.write("#{$n[:child]} "); exit!(0) }
      Process.wait(pid)
    end
    w.write($n[:child].to_s)
    i.odd? ? exit!(0) : Process.kill(:KILL, $$)
  end
  w.close
  Process.wait(pid) if i % 3 == 0
  [r, pid]
end
readers.each { |r, pid| total += r.read.split.sum(&:to_i); r.close; Process.wait(pid) rescue nil }
$n[:child] = total
File.write(ARGV[1], $n.map { |k, v| "@[#{k}]: #{v}\n" }.sort.join)
