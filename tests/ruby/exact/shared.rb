# SPDX-License-Identifier: MIT
# Code that many classes share, classes that live for one call, and sites with code that is made again.
require 'ostruct'

class Req; end
class Other; end

def single(klass)
  o = klass.new
  def o.user; 1; end
  o.define_singleton_method(:twice) { user + user }
  o.user + o.twice
end

module Both
  module_function

  def helper(n)
    n
  end
end

def make(i)
  k = Class.new { define_method(:x) { 1 } }
  Object.const_set("Made#{i}", k)
end

class One; def a; b; end; def b; 2; end; def again(n); n.zero? ? 0 : again(n - 1); end; end

Harness.ready
made = Array.new(300) { |i| make(i) }
3.times { |i| made.each { |k| k.new.x }; GC.start if i == 1 }
kept = []
600.times do |i|
  single(i.odd? ? Req : Other)
  kept << Req.new if i % 3 == 0
  o = One.new
  o.a
  o.b
  o.again(3)
  Both.helper(i)
  s = OpenStruct.new(first: 1, second: 2)
  s.first + s.second
  GC.start(full_mark: i % 200 == 0) if i % 60 == 0
end
100.times do |i|
  One.class_eval "def c; 3; end; def d; c; end", $0, 700 + i % 2
  GC.start if i % 20 == 0
  One.new.d
end
