# SPDX-License-Identifier: MIT
# Objects, by the line that makes them: by `new`, by literals, by methods written in C. Lines with
# "hidden" are not compared: there Ruby makes objects and hides them from ObjectSpace afterwards.
class Thing # hidden: the singleton class
  def initialize(x); @x = [x]; end
end

Pair = Struct.new(:a, :b) # hidden

def objects
  10.times { Thing.new(1) }
  4.times { Object.new }
  3.times { Pair.new('a', 'b') }
  2.times { Class.new } # hidden: the singleton classes
end

def literals
  5.times { 'text' + 'more' }
  6.times { [1, [2, 3]] }
  7.times { { a: { b: 1 } } }
  2.times { "#{1}#{2}" }
  2.times { 1.5e300.to_s }
  3.times { 2**70 }
  2.times { /a#{1}/ }
end

def from_c
  4.times { 'a,b,c'.split(',') }
  3.times { (1..5).map { |x| x.to_s } }
  2.times { [3, 1].sort.reverse }
  2.times { 'abc'.match(/b/) }
  2.times { Integer('x') rescue nil }
  2.times { Marshal.load(Marshal.dump([1, 'x'])) }
end

def lasting
  t = Thread.new do # hidden
    Thing.new(2)
  end
  t.join
  Fiber.new { Thing.new(3) }.resume
  lambda { 'x' }.call
end

Harness.ready
objects
literals
from_c
lasting
