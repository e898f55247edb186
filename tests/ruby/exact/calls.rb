# SPDX-License-Identifier: MIT
# Every way to define and to call a method. Known counts are in the comments where it is not plain.
class Plain
  def empty; end
  def nested; empty; empty; end
  def recursive(n); n.zero? ? 0 : recursive(n - 1); end
  def yields; yield; yield; end
  def with_rest(*args, key: 1, **rest, &block); block&.call; end
  def raises; raise ArgumentError, 'x'; end
  def ensures; raises; ensure empty; end
  def rescues; raises; rescue ArgumentError; empty; end
  def retries; @n = (@n || 0) + 1; raise 'again' if @n % 3 != 0; rescue RuntimeError; retry; end
  def throws; throw :out, 1; end
  def catches; catch(:out) { throws; empty }; end
  def early; [1, 2, 3].each { |x| return x if x == 2 }; end
  def breaks; [1, 2, 3].each { |x| break if x == 2 }; end
  def self.singleton; new.empty; end
  class << self
    def inner_singleton; end
  end
  define_method(:dynamic) { |x = 1| [1, 2].each { |i| i + x } }
  define_method(:dynamic_return) { [1, 2].each { |i| return i }; nil }
  define_method(:dynamic_raise) { raise 'y' }
  %w[one two].each { |n| define_method("made_#{n}") { n } }
  alias renamed empty
  alias_method :renamed_dynamic, :dynamic
  attr_accessor :attribute
  def method_missing(name, *args); name == :ghost ? empty : super; end
  def respond_to_missing?(name, *) name == :ghost; end
  def [](i); i; end
  def +(other); other; end
  def empty?; true; end
  def empty!; end
  def attribute2=(x); @x = x; end
  private def hidden; end
  def calls_hidden; hidden; send(:hidden); end
  protected def guarded; end
  def calls_guarded; guarded; end
end

module Functions
  module_function

  def function; end
end

module Mixin
  def mixed; super if defined?(super); end
end

class Base
  def mixed; end
  def initialize; mixed; end
  def overridden; 1; end
end

class Derived < Base
  include Mixin
  def overridden; super + 1; end
end

class Prepended < Base
  prepend Mixin
  include Functions
  def uses; function; end
end

class Copied < Derived
  define_method(:from_base, Base.instance_method(:overridden))
end

class Liar
  def self.name; raise 'asked for its name'; end
  def self.inspect; raise 'asked to show itself'; end
  def self.to_s; raise 'asked to show itself'; end
  def inspect; raise 'asked to show itself'; end
  def honest; end
  def self.honest; end
end

module Refined
  refine String do
    def shouted; upcase; end
  end
end
using Refined

class Größe
  def länge; 1; end
end

class NoName
  define_method(:"#{'long' * 100}") { 1 }
  define_method(:'with space') { 2 }
end

ANONYMOUS = Class.new { def quiet; end; def self.quiet; end }
OBJECT = Object.new
def OBJECT.only; end
def OBJECT.both; only; end

def top_level; end

class Outer
  def defines
    self.class.class_eval { def inner_def; end }
    inner_def
  end

  def defines_plainly
    def plain_inner; end
    plain_inner
  end
end

Record = Struct.new(:a, :b) do
  def sum; a + b; end
end

# Receivers that are no objects of the heap, of classes that share code.
module Anything
  def anything; 1; end
end

AnythingElse = Anything.dup
[Integer, Symbol, NilClass].each { |c| c.include Anything }
[Float, TrueClass, FalseClass].each { |c| c.include AnythingElse }

# One block, several methods, of several classes.
SHARED = proc { |n = 1| n }
class Sharer
  define_method(:shared, &SHARED)
  define_method(:shared_again, &SHARED)
  alias aliased shared
end

class Sharing
  define_method(:shared, &SHARED)
end

class Redefined
  def changing; 1; end
end

def expect(error)
  yield
rescue error
  nil
end

def plain_calls(f)
  10.times { f.empty }
  3.times { f.nested }
  f.recursive(20)
  2.times { f.yields { f.empty } }
  f.with_rest(1, 2, key: 3, other: 4) { f.empty }
  4.times { expect(ArgumentError) { f.raises } }
  2.times { expect(ArgumentError) { f.ensures } }
  2.times { f.rescues }
  2.times { f.retries }
  3.times { f.catches }
  3.times { f.early }
  3.times { f.breaks }
end

def dynamic_calls(f)
  7.times { f.dynamic(2) }
  2.times { f.dynamic_return }
  2.times { expect(RuntimeError) { f.dynamic_raise } }
  3.times { f.made_one }
  4.times { f.made_two }
  5.times { f.renamed }
  2.times { f.renamed_dynamic }
  f.attribute = f.attribute
  3.times { f.ghost }
  f.public_send(:empty)
  f.method(:empty).call
  f.method(:dynamic).unbind.bind(f).call
  [f, f].each(&:empty)
  [f].map(&f.method(:with_rest))
  f[1] + (f + 2)
  f.empty? && f.empty!
  f.attribute2 = 1
  2.times { f.calls_hidden }
  f.calls_guarded
  f.instance_eval { empty }
  f.instance_exec(1) { |_| nested }
end

def class_calls
  6.times { Plain.singleton }
  3.times { Plain.inner_singleton }
  3.times { Functions.function }
  p = Prepended.new
  2.times { p.uses }
  p.mixed
  d = Derived.new
  2.times { d.overridden }
  Copied.new.from_base
  2.times { Liar.new.honest }
  Liar.honest
  3.times { 'x'.shouted }
  2.times { Größe.new.länge }
  NoName.new.public_send('long' * 100)
  2.times { NoName.new.public_send(:'with space') }
  2.times { ANONYMOUS.new.quiet }
  ANONYMOUS.quiet
  2.times { OBJECT.both }
  9.times { top_level }
  [1, 300, 1.5, :a, nil, true, false, -1, 2.5].each { |x| 3.times { x.anything } }
  5.times do
    Sharer.new.shared
    Sharing.new.shared(2)
    2.times { Sharer.new.shared_again }
    Sharer.clone.new.shared
    Sharer.new.aliased
  end
  o = Outer.new
  2.times { o.defines }
  2.times { o.defines_plainly }
  2.times { Record.new(1, 2).sum }
end

def late_calls
  r = Redefined.new
  2.times { r.changing }
  Redefined.class_eval { def changing; 2; end }
  3.times { r.changing }
  eval('def evaluated; end', binding, __FILE__, 9000)
  4.times { evaluated }
  Redefined.class_eval('def from_string; end', __FILE__, 9100)
  5.times { r.from_string }
  Redefined.send(:define_method, :defined_late) { 3 }
  6.times { r.defined_late }
  r.define_singleton_method(:own) { 4 }
  2.times { r.own }
  3.times { Class.new { def fresh; end }.new.fresh }
  copy = Redefined.clone
  2.times { copy.new.changing }
end

Harness.ready
f = Plain.new
plain_calls(f)
dynamic_calls(f)
class_calls
late_calls
GC.start
GC.compact if GC.respond_to?(:compact) && RUBY_VERSION >= '3'
plain_calls(f)
class_calls
