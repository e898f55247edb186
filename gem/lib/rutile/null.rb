# frozen_string_literal: true

# What stands in where the extension could not be built or loaded: everything can be declared, nothing
# is ever traced.

module Rutile
  # @api private
  NULL = true

  # (see file:ext/rutile/rb_init.c)
  def self.nsec
    Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end

  class Provider # :nodoc:
    def loaded?
      false
    end

    def paths
      []
    end

    private

    def native_create(name, _main)
      return if name.match?(/\A[!-9;-~]{1,255}\z/)

      raise ArgumentError, "invalid provider name #{name.inspect}: 1 to 255 printable characters without blanks and colons"
    end

    def native_load
      Errno::ENOTSUP::Errno
    end

    def native_unload; end

    def native_enabled?(otherwise)
      otherwise
    end

    def native_enabled=(_enabled); end

    class << self
      private

      def native_all_enabled=(_enabled); end

      def native_hand_over(_tracepoint); end

      def native_next_handed; end
    end
  end

  class Tracepoint # :nodoc:
    InvalidArgType = Class.new(StandardError)
    InvalidArgumentError = Class.new(StandardError)
    # What may be declared, and the classes of values that fit it besides nil.
    TYPES = {
      Integer => [Integer], Float => [Float, Integer], String => [String, Symbol], Symbol => [String, Symbol],
      TrueClass => [TrueClass, FalseClass], FalseClass => [TrueClass, FalseClass], NilClass => []
    }.each_value(&:freeze).freeze # shareable
    private_constant :TYPES

    attr_reader :provider_name, :name, :args

    def fire(*values)
      check(values) if @strict && !(values.empty? && block_given?)
      false
    end

    def enabled?
      false
    end

    def on?
      false
    end

    def enable
      self
    end

    def disable
      self
    end

    %i[fired mismatched saturated truncated].each { |count| define_method(count) { 0 } }

    def native_defer; end

    def native_wanted; end

    private

    def native_create(_provider, provider_name, name, args, strict)
      raise InvalidArgType, "#{args.size} arguments, at most 12 are possible" if args.size > 12

      bad = args.find { |type| !TYPES.key?(type) }
      raise InvalidArgType, "#{bad.inspect} is no type of a tracepoint's argument" if bad
      raise ArgumentError, "invalid tracepoint name #{name.inspect}" unless name.match?(/\A[!-9;-~]{1,255}\z/)

      @provider_name = provider_name
      @name = name
      @args = args
      @strict = strict
    end

    def native_name_args(names)
      good = names.size == @args.size && names.uniq.size == names.size && names.all? { |name| name.match?(/\A[A-Za-z_]\w*\z/) }
      raise ArgumentError, "invalid names of arguments #{names.inspect}" unless good && names.join(',').size < 256
    end

    def check(values)
      values.zip(@args) do |value, type|
        next if type.nil? || nil == value || TYPES.fetch(type).any? { |fitting| fitting === value } # rubocop:disable Style/YodaCondition

        raise self.class::InvalidArgumentError.new(value, type)
      end
      return if values.size == @args.size

      raise ArgumentError, "wrong number of arguments for tracepoint #{name} (given #{values.size}, expected #{@args.size})"
    end
  end

  class Listeners # :nodoc:
    include Enumerable

    attr_reader :idle, :all, :gates

    def initialize(idle, all, gates)
      @idle = idle.dup.freeze
      @all = all.dup.freeze
      @gates = gates.dup.freeze
    end

    def to_a
      @idle
    end
    alias to_ary to_a

    def empty?
      @idle.empty?
    end

    def each(&block)
      block ? @idle.each(&block) : to_enum
    end
  end

  class Span # :nodoc:
    NONE = new.freeze

    class << self
      def enabled?
        false
      end

      def traceparent; end

      private

      def native_points(_begin, _end); end
    end

    %i[traceparent trace_id id parent_id].each { |name| define_method(name) { nil } }

    def name=(_name); end

    def []=(_key, _value); end
  end

  # (see file:ext/rutile/rb_span.c)
  def self.span(_name, _attributes = nil, _traceparent = nil)
    yield Span::NONE
  end

  module Control # :nodoc:
    class << self
      private

      def native_start
        Errno::ENOTSUP::Errno
      end

      def native_stop; end

      def signal_free?(number)
        name = Signal.signame(number)
        old = Signal.trap(name, 'DEFAULT')
        Signal.trap(name, old) if old
        ['DEFAULT', nil, 'SYSTEM_DEFAULT', 'IGNORE'].include?(old)
      end
    end
  end
end
