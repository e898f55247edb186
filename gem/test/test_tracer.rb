# frozen_string_literal: true

require_relative 'test_helper'

# What tracers must not change: everything a method call means in Ruby.
class TracerTest < Minitest::Test
  TRACERS = [Rutile::Tracer::Latency, Rutile::Tracer::Stack, Rutile::Tracer::Arguments,
             Rutile::Tracer::Exceptions, Rutile::Tracer::Allocations].freeze

  class Base
    def inherited_one(a); [:base, a]; end
    def overridden(a); [:base, a]; end
  end

  module RefinedString
    refine String do
      def shout; "#{upcase}!"; end
    end
  end
  using RefinedString

  class Target < Base
    attr_accessor :value

    def none; :none; end
    def positional(a, b = 2, *rest, c); [a, b, rest, c]; end
    def keywords(a, k:, o: 1, **rest); [a, k, o, rest]; end
    def hash_last(a, h = {}); [a, h]; end
    def only_rest(*args); args; end
    def options(**options); options; end
    def required(a); a; end
    def optional(a, b = 5, *rest); [a, b, rest]; end
    def around(a, b = 6, *rest, c); [a, b, rest, c]; end
    def no_keywords(a, **nil); a; end
    def block(a); yield(a, a); end
    def block_given; block_given?; end
    def block_object(&block); block; end
    def overridden(a); [:target, super]; end
    def self_returning; self; end
    def raising; raise(ArgumentError, 'as it was'); end
    def throwing; throw(:out, 5); end
    def returning_early(list); list.each { |x| return x if x > 1 }; end
    def refined(text); text.shout; end
    def caller_name; caller_locations(1, 5).map(&:label); end
    def ==(other); other.is_a?(Target); end
    def [](a, k: 0); [a, k]; end
    def []=(a, b)
      @set = [a, b]
    end
    def +(other); [:plus, other]; end
    def -@; :minus; end
    def !~(other); [:no, other]; end
    def valid?; true; end
    def change!(k:); k; end
    def call_private; private_one(1); end
    def call_protected(other); other.protected_one(2); end
    def dir; __dir__; end
    define_method('odd name') { |a, k: 1, &b| [a, k, b&.call] }

    def method_missing(name, *args, **options, &block)
      name.to_s.start_with?('dyn_') ? [name, args, options, block&.call] : super
    end

    def respond_to_missing?(name, all = false); name.to_s.start_with?('dyn_') || super; end

    def self.singleton(a, k:); [self, a, k]; end

    protected def protected_one(a); [:protected, a]; end

    private

    def private_one(a); [:private, a]; end
  end

  class Sub < Target
    def overridden(a); [:sub, super(a)]; end
  end

  METHODS = %i[none required optional around positional keywords hash_last only_rest options no_keywords block block_given block_object
               overridden self_returning raising throwing returning_early refined == [] []= + -@ !~ valid? change!
               value value= inherited_one private_one protected_one dyn_known].push(:'odd name').freeze
  OBJECT = Target.new
  SUB = Sub.new

  # Every kind of call, each result or exception as text.
  CALLS = {
    none: -> { OBJECT.none },
    positional: -> { [OBJECT.positional(1, 3), OBJECT.positional(1, 2, 3, 4), OBJECT.positional(*[1, 2, 3])] },
    keywords: -> { [OBJECT.keywords(1, k: 2), OBJECT.keywords(1, k: 2, o: 3, z: 4), OBJECT.keywords(1, **{ k: 5, 'str' => 6 })] },
    keyword_errors: -> { OBJECT.keywords(1, { k: 2 }) },
    missing_keyword: -> { OBJECT.keywords(1) },
    hash_last: -> { [OBJECT.hash_last(1, { a: 2 }), OBJECT.hash_last(1, a: 2), OBJECT.hash_last(1), OBJECT.hash_last({ a: 1 })] },
    only_rest: -> { [OBJECT.only_rest(1, a: 2), OBJECT.only_rest({ a: 2 }), OBJECT.only_rest(**{}), OBJECT.only_rest({}), OBJECT.only_rest] },
    options: -> { [OBJECT.options, OBJECT.options(a: 1), OBJECT.options(**{ 'x' => 2 })] },
    options_error: -> { OBJECT.options({ a: 1 }) },
    no_keywords: -> { OBJECT.no_keywords({ a: 1 }) },
    empty_splat: -> { [OBJECT.required(**{}), OBJECT.optional(**{}), OBJECT.around(1, **{})] },
    empty_splat_missing: -> { OBJECT.required },
    empty_splat_too_many: -> { OBJECT.required(1, 2) },
    optional: -> { [OBJECT.optional(1), OBJECT.optional(1, 2), OBJECT.optional(1, 2, k: 3), OBJECT.around(1, 2, 3, k: 4)] },
    no_keywords_error: -> { OBJECT.no_keywords(1, a: 1) },
    block: -> { [OBJECT.block(3) { |a, b| a + b }, OBJECT.block(1, &:+)] },
    no_block: -> { OBJECT.block(1) },
    block_given: -> { [OBJECT.block_given, OBJECT.block_given {}] },
    block_object: -> { OBJECT.block_object { 4 }.call },
    break: -> { OBJECT.block(1) { |a,| break a + 10 } },
    overridden: -> { [OBJECT.overridden(1), SUB.overridden(2)] },
    subclass: -> { [SUB.none, SUB.keywords(1, k: 2), SUB.inherited_one(3)] },
    self_returning: -> { OBJECT.self_returning.equal?(OBJECT) },
    raising: -> { OBJECT.raising },
    throwing: -> { catch(:out) { OBJECT.throwing } },
    returning_early: -> { OBJECT.returning_early([1, 2, 3]) },
    refined: -> { OBJECT.refined('a') },
    operators: -> { [OBJECT == 1, OBJECT == SUB, OBJECT[1], OBJECT[1, k: 2], (OBJECT[1] = 2), OBJECT + 1, -OBJECT, OBJECT !~ 3] },
    names: -> { [OBJECT.valid?, OBJECT.change!(k: 1), OBJECT.value = 5, OBJECT.value] },
    odd_name: -> { [OBJECT.send('odd name', 1), OBJECT.send('odd name', 1, k: 2) { 3 }] },
    private: -> { [OBJECT.call_private, OBJECT.send(:private_one, 1)] },
    private_error: -> { OBJECT.private_one(1) },
    protected: -> { [OBJECT.call_protected(SUB), SUB.call_protected(OBJECT)] },
    protected_error: -> { OBJECT.protected_one(1) },
    method_missing: -> { [OBJECT.dyn_known(1, a: 2) { 3 }, OBJECT.dyn_other(1)] },
    method_missing_error: -> { OBJECT.unknown },
    singleton: -> { Target.singleton(1, k: 2) },
    wrong_number: -> { OBJECT.none(1) },
    method_object: -> { [OBJECT.method(:none).call, OBJECT.method(:keywords).unbind.bind(SUB).call(1, k: 2)] },
    to_proc: -> { [1, 2].map(&OBJECT.method(:+)) },
    public_send: -> { [OBJECT.public_send(:keywords, 1, k: 2), OBJECT.respond_to?(:private_one), OBJECT.respond_to?(:dyn_x)] },
    visibility: -> { [Target.public_method_defined?(:none), Target.private_method_defined?(:private_one), Target.protected_method_defined?(:protected_one)] }
  }.freeze

  # Some of these calls are what Ruby 2.7 warns of, wrapped or not.
  def self.results
    deprecated = Warning[:deprecated]
    Warning[:deprecated] = false
    CALLS.transform_values do |call|
      [:returned, call.call.inspect]
    rescue StandardError => e
      # "undefined method `m' for #<X>" names the object; the wrapped one has no other words.
      [e.class, e.message.lines.first.chomp]
    end
  ensure
    Warning[:deprecated] = deprecated
  end

  PLAIN = results.freeze

  def assert_same_meaning(state)
    TracerTest.results.each { |name, result| assert_equal PLAIN[name], result, "#{name} while #{state}" }
  end

  TRACERS.each do |tracer|
    short = tracer.name[/\w+\z/].downcase
    provider = "meaning_#{short}"
    points = tracer.register(Target, *METHODS, provider: provider)
    points += tracer.register(Target.singleton_class, :singleton, provider: "#{provider}_singleton")

    define_method("test_#{short}_keeps_the_meaning") do
      tracer.enable!
      assert_same_meaning 'enabled'
      points.each { |tp| TestSupport.semaphore(tp, 1) }
      assert_same_meaning 'traced'
      points.each { |tp| TestSupport.semaphore(tp, -1) }
      fired = points.to_h { |tp| [tp.name, tp.fired] }
      if tracer == Rutile::Tracer::Exceptions
        assert_operator fired['raising_exceptions'], :>=, 1
        assert_equal 0, fired['none_exceptions'] - 1 # the call with a wrong number of arguments
      else
        quiet = fired.select { |_, n| n.zero? }.keys
        assert_empty quiet
      end
      assert_equal(0, points.sum(&:mismatched))
      tracer.disable!
      assert_same_meaning 'disabled'
    ensure
      tracer.disable!
    end
  end

  def test_all_tracers_at_once
    TRACERS.each(&:enable!)
    assert_same_meaning 'enabled'
    TRACERS.reverse_each(&:disable!)
    assert_same_meaning 'disabled'
  ensure
    TRACERS.each(&:disable!)
  end

  def test_nothing_remains
    klass = Class.new { def work(a, k: 1); [a, k]; end }
    before = klass.instance_method(:work)
    Rutile::Tracer::Latency.register(klass, :work, provider: 'remains')
    assert_equal before, klass.instance_method(:work), 'registering changes nothing'
    assert_equal Object, klass.ancestors[1]
    3.times do
      Rutile::Tracer::Latency.enable!
      refute_equal before.owner, klass.instance_method(:work).owner
      Rutile::Tracer::Latency.disable!
      after = klass.instance_method(:work)
      assert_equal [before.owner, before.arity, before.parameters, before.source_location],
                   [after.owner, after.arity, after.parameters, after.source_location]
      assert_empty klass.ancestors.first.instance_methods(false)
    end
  end

  # Ruby says that removing these "may cause serious problems", which an application must not get to see.
  def test_methods_that_ruby_needs
    klass = Class.new do
      attr_reader :a

      def initialize(a); @a = a; end
    end
    points = Rutile::Tracer::Latency.register(klass, :initialize, :object_id, provider: 'needed')
    verbose = $VERBOSE
    $VERBOSE = true
    assert_output('', '') do
      Rutile::Tracer::Latency.enable!
      points.each { |tp| TestSupport.semaphore(tp, 1) }
      object = klass.new(3)
      assert_equal [3, object.__id__], [object.a, object.object_id]
      assert_equal [1, 1], points.map(&:fired)
      points.each { |tp| TestSupport.semaphore(tp, -1) }
      Rutile::Tracer::Latency.disable!
    end
    assert_equal 3, klass.new(3).a
    assert_equal true, $VERBOSE
  ensure
    $VERBOSE = verbose
    Rutile::Tracer::Latency.disable!
  end

  # A provider that went, or another one: the method gets a tracepoint that works.
  def test_registered_again
    klass = Class.new { def work; 1; end }
    first, = Rutile::Tracer::Latency.register(klass, :work, provider: 'again')
    assert_same first, Rutile::Tracer::Latency.register(klass, :work, provider: 'again')[0]
    Rutile::Tracer::Latency.enable!
    first.provider.destroy
    %w[again elsewhere].each do |name|
      point, = Rutile::Tracer::Latency.register(klass, :work, provider: name)
      assert_equal name, point.provider.name
      traced(point) { assert_equal 1, klass.new.work }
      assert_equal 1, point.fired
    end
  ensure
    Rutile::Tracer::Latency.disable!
  end

  def test_registered_while_all_are_switched
    require 'ruby-static-tracing'
    klass = Class.new { def one; 1; end; def two; 2; end }
    first, = StaticTracing::Tracer::Latency.register(klass, :one, provider: 'meanwhile')
    first.define_singleton_method(:enable) do
      StaticTracing::Tracer::Latency.register(klass, :two, provider: 'meanwhile')
      super()
    end
    StaticTracing::Tracer::Latency.enable!
    assert_equal %w[one two], StaticTracing::Provider.fetch('meanwhile').tracepoints.keys
  ensure
    StaticTracing::Tracer::Latency.disable!
  end

  def test_a_tracer_below_another
    klass = Class.new { def work; 1; end }
    below = Class.new(Class.new(Rutile::Tracer::Latency))
    point, = below.register(klass, :work, provider: 'below')
    below.enable!
    refute_predicate Rutile::Tracer::Latency, :enabled?
    traced(point) { klass.new.work }
    assert_equal [1, [String, Integer]], [point.fired, point.args]
    below.disable!
    aimless = Class.new(Rutile::Tracer::Base)
    aimless.register(klass, :work, provider: 'aimless')
    assert_match(/set_wrapping_function/, assert_raises(Rutile::BaseError) { aimless.enable! }.message)
    assert_equal 1, klass.new.work
  ensure
    below&.disable!
  end

  def test_long_names
    names = %w[a b].map { |letter| "#{'long' * 60}_#{letter}" }
    klass = Class.new { names.each { |name| define_method(name) { name } } }
    points = Rutile::Tracer::Latency.register(klass, *names, provider: 'p' * 127)
    assert_equal [127, 127], (points.map { |tp| tp.name.size })
    refute_equal(*points.map(&:name))
    points.each { |tp| assert tp.name.end_with?('_latency') }
    Rutile::Tracer::Latency.enable!
    traced(points[1]) { assert_equal names, (names.map { |name| klass.new.send(name) }) }
    assert_equal [0, 1], points.map(&:fired)
  ensure
    Rutile::Tracer::Latency.disable!
  end

  # A stack is fired whole, however deep it is.
  def test_deep_stacks
    klass = Class.new do
      def deep(n); n.zero? ? work : deep(n - 1); end
      def work; caller(0); end
    end
    point, = Rutile::Tracer::Stack.register(klass, :work, provider: 'deep_stacks')
    Rutile::Tracer::Stack.enable!
    parts = Rutile::Tracer::Stack.method(:parts).unbind.bind(Rutile::Tracer::Stack)
    frames = nil
    traced(point) { frames = klass.new.deep(300) }
    text = Rutile::Tracer::Helpers.stack(frames)
    split = parts.call(text)
    assert_equal [text, split.size], [split.join, point.fired]
    assert_operator split.size, :>, 3
    assert_equal %w[a], parts.call('a')
    long = "#{'\u00fc' * 9000}\n#{'x' * 4001}\nend"
    assert_equal long, parts.call(long).join
    parts.call(long).each { |part| assert part.valid_encoding? && part.bytesize <= 4000 }
  ensure
    Rutile::Tracer::Stack.disable!
  end

  # A class whose own methods have the names of Module's.
  class Selfish
    def work; :worked; end

    %i[prepend public_instance_methods method_defined? private_method_defined? protected_method_defined? instance_method
       singleton_class name].each { |name| define_singleton_method(name) { |*| raise "called #{name}" } }
  end

  # One class that cannot be wrapped is reported once, whatever the tracer, and keeps none from being wrapped.
  def test_classes_that_cannot_be_wrapped
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      class First; def one; 1; end; end
      class Ice; def cold; 1; end; def colder; 2; end; freeze; end
      class Last; def two; 2; end; end
      tracers = [Rutile::Tracer::Latency, Rutile::Tracer::Stack, Class.new(Rutile::Tracer::Base)]
      tracers.reverse_each { |tracer| Rutile::Tracers.add(tracer) }
      points = tracers.flat_map { |tracer| [First, Ice, Last].flat_map { |klass| tracer.register(klass) } }
      2.times { Rutile.enable! }
      p [First, Ice, Last].map { |klass| klass.instance_method(klass.instance_methods(false)[0]).owner == klass }
      puts points.select(&:on?).map(&:name).sort.join(' ')
      Rutile.disable!
    RUBY
    said = ruby(code).lines
    assert_includes said.shift, 'does not say what to do: it needs set_wrapping_function (Rutile::BaseError)'
    assert_equal ["rutile: cannot trace methods of Ice: can't modify frozen class: Ice (FrozenError)\n",
                  "[false, true, false]\n", "one_latency one_stack two_latency two_stack\n"], said
  end

  # Named in the environment, a frozen class is met while the application starts.
  def test_a_class_that_cannot_be_wrapped_when_it_is_registered
    said = ruby(<<~'RUBY', env: { 'RUTILE_TRACEPOINTS' => 'shop:*' })
      require 'rutile/static_tracing'
      class Ice; def cold; 1; end; freeze; end
      class Open; def one; 1; end; end
      Rutile::Tracer::Latency.register(Ice, :cold, provider: 'shop')
      Rutile::Tracer::Latency.register(Open, :one, provider: 'shop')
      p Open.instance_method(:one).owner == Open
    RUBY
    assert_equal "rutile: cannot trace methods of Ice: can't modify frozen class: Ice (FrozenError)\nfalse\n", said
  end

  def test_a_class_with_methods_of_these_names
    point, = Rutile::Tracer::Latency.register(Selfish, provider: 'selfish')
    Rutile::Tracer::Latency.enable!
    traced(point) { assert_equal :worked, Selfish.new.work }
    assert_equal 1, point.fired
  ensure
    Rutile::Tracer::Latency.disable!
  end

  # A wrapper that cannot be completed leaves nothing behind.
  def test_a_wrapper_that_fails_half_way
    klass = Class.new { def work; 1; end; def play; 2; end }
    tracer = Class.new(Rutile::Tracer::Latency)
    def tracer.name; 'Halfway'; end
    points = tracer.register(klass, :work, :play, provider: 'halfway')
    wrapping = Rutile::Tracer.wrappings.last
    wrapping.define_singleton_method(:ruby2_keywords) { |name| name == :work ? raise(TypeError, 'no') : super(name) }
    assert_output('', /cannot trace .*#work: no \(TypeError\)/) { tracer.enable! }
    assert_equal [klass, wrapping], [klass.instance_method(:work).owner, klass.instance_method(:play).owner]
    assert_equal [false, true], points.map(&:on?)
  ensure
    tracer.disable!
  end

  # As an application does that reloads its code: the old classes are freed, and what was switched on from
  # outside is on in the new ones.
  def test_reloaded_classes_are_freed
    generations = ObjectSpace::WeakMap.new
    points = nil
    reload = lambda do |n|
      klass = Class.new { def work; 1; end }
      generations[klass] = klass
      points = TRACERS.map { |tracer| tracer.register(klass, :work, provider: 'reloaded')[0] }
      klass.new.work
      Rutile::Tracer.wrappings.last(TRACERS.size).each { |wrapping| wrapping.switch_all(true) } if n == 5
    end
    wrappings = Rutile::Tracer.wrappings.size
    40.times(&reload)
    assert_predicate points[0], :on?
    5.times { GC.start }
    Rutile::Tracer::Latency.register(Class.new { def work; 1; end }, :work, provider: 'reloaded')
    # Ruby's collector may take words on the stack for references.
    assert_operator generations.size, :<, 10
    assert_operator Rutile::Tracer.wrappings.size - wrappings, :<, 10 * TRACERS.size
  ensure
    TRACERS.each(&:disable!)
  end

  def test_return_exception_throw_and_kill_all_fire
    klass = Class.new do
      def returns; 1; end
      def raises; raise('x'); end
      def throws; throw(:t); end
      def killed; Thread.current.kill; end
    end
    points = Rutile::Tracer::Latency.register(klass, :returns, :raises, :throws, :killed, provider: 'leaving')
    Rutile::Tracer::Latency.enable!
    points.each { |tp| TestSupport.semaphore(tp, 1) }
    o = klass.new
    o.returns
    assert_raises(RuntimeError) { o.raises }
    catch(:t) { o.throws }
    Thread.new { o.killed }.join
    assert_equal [1, 1, 1, 1], points.map(&:fired)
  ensure
    points.each { |tp| TestSupport.semaphore(tp, -1) }
    Rutile::Tracer::Latency.disable!
  end

  def test_all_public_methods_of_a_class
    points = Rutile::Tracer::Latency.register(Sub)
    assert_equal ['tracer_test_sub:overridden_latency'], (points.map { |tp| "#{tp.provider_name}:#{tp.name}" })
    assert_raises(NameError) { Rutile::Tracer::Latency.register(Base, :does_not_exist) }
    assert_equal 'not a class or module: "Base"', assert_raises(ArgumentError) { Rutile::Tracer::Latency.register('Base', :x) }.message
  end

  module Shop
    VERSION = 1
    def self.open; :open; end

    class Cart
      def add; :add; end
      def self.find; :find; end

      class Item
        def price; 3; end
      end
    end
    Alias = ::String
    autoload :Never, '/nonexistent'
  end

  def test_namespace
    points = Rutile::Tracer::Stack.register_namespace(Shop)
    assert_equal %w[tracer_test_shop:open_stack tracer_test_shop_cart:add_stack tracer_test_shop_cart:find_stack
                    tracer_test_shop_cart_item:price_stack], points.map { |tp| "#{tp.provider_name}:#{tp.name}" }.sort
    Rutile::Tracer::Stack.enable!
    assert_equal [:open, :add, :find, 3], [Shop.open, Shop::Cart.new.add, Shop::Cart.find, Shop::Cart::Item.new.price]
    refute_includes String.ancestors.first.to_s, 'Rutile'
  ensure
    Rutile::Tracer::Stack.disable!
  end

  def test_own_tracer
    tracer = Class.new(Rutile::Tracer::Base) do
      set_wrapping_function(lambda do |*args, &block|
        Rutile::Tracepoint.fetch('own', 'keywords_').fire(__method__)
        super(*args, &block)
      end)
      set_tracepoint_data_types(Symbol)
    end
    point, = tracer.register(Target, :keywords, provider: 'own')
    tracer.enable!
    traced(point) { assert_equal [1, 2, 1, {}], OBJECT.keywords(1, k: 2) }
    assert_equal 1, point.fired
  ensure
    tracer.disable!
  end

  def test_ractors_may_call_wrapped_methods
    skip 'no ractors in this Ruby' unless defined?(Ractor)
    code = <<~'RUBY'
      $VERBOSE = nil
      require 'rutile/static_tracing'
      class C; def m(a, k:); [a, k]; end; end
      tracers = [Rutile::Tracer::Latency, Rutile::Tracer::Stack, Rutile::Tracer::Arguments, Rutile::Tracer::Exceptions, Rutile::Tracer::Allocations]
      tracers.each { |t| t.register(C, :m); t.enable! }
      p Ractor.new { C.new.m(1, k: 2) }.take
    RUBY
    assert_includes ruby(code), '[1, 2]'
  end

  # The texts of arguments run none of the application's code.
  def test_descriptions
    danger = Class.new do
      def self.name; 'Danger'; end
      %i[inspect to_s class to_str respond_to? is_a?].each { |m| define_method(m) { |*| raise 'called' } }
    end
    describe = ->(*args, **kw) { Rutile::Tracer::Helpers.describe_call(args + (kw.empty? ? [] : [Hash.ruby2_keywords_hash(kw)])) }
    assert_equal '1, "a", :b, nil, 1.5', describe.call(1, 'a', :b, nil, 1.5)
    assert_equal '[1, [...], {...}], {:a=>1}, k: 2', describe.call([1, [2], { a: 1 }], { a: 1 }, k: 2)
    assert_match(/\A#<>\z|\A#<\?>\z/, Rutile::Tracer::Helpers.describe(danger.new))
    assert_equal '#<TracerTest::Base>', describe.call(Base.new)
    plain = { Array => [1, 2, 3, 4, 5, 6], Hash => { a: 1 }, String => 'x' * 101 }
    hostile = plain.map do |type, value|
      evil = Class.new(type)
      evil.new.replace(value).tap do
        (type.instance_methods - %i[__id__ __send__ object_id]).each { |name| evil.define_method(name) { |*| raise "called #{name}" } }
      end
    end
    assert_equal '[1, 2, 3, 4, 5, ...]; {:a=>1}; "xxx', hostile.map { |value| Rutile::Tracer::Helpers.describe(value) }.join('; ')[0, 39].sub(/x{3,}\z/, 'xxx')
    sly = Class.new { %i[name is_a? singleton_class? singleton_class ===].each { |name| define_singleton_method(name) { |*| raise 'called' } } }
    assert_equal '#<Class>, #<>', describe.call(sly, sly.new)
    assert_operator describe.call('x' * 10_000, [1] * 1000).size, :<, 300
  end
end
