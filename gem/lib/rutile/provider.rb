# frozen_string_literal: true

module Rutile
  # A namespace of tracepoints. Made by {Provider.register}, or implicitly by {Tracepoint#initialize}.
  class Provider
    # There is no provider of that name.
    class ProviderMissingError < StandardError; end

    class << self
      # The provider of that name, made if there is none. Unless the environment or {Rutile.disable!} said
      # otherwise it is enabled from the start.
      # @param namespace [String, Symbol]
      # @return [Provider]
      def register(namespace)
        key = namespace.to_s
        return new(key) unless Rutile.main_ractor?

        providers[key] || Rutile.exclusively { providers[key] ||= new(key) }
      end

      # @param namespace [String, Symbol]
      # @return [Provider]
      # @raise [ProviderMissingError]
      def fetch(namespace)
        providers.fetch(namespace.to_s) { raise self::ProviderMissingError, "no provider #{namespace}" }
      end

      # Enables every provider.
      def enable!
        providers.values.each(&:enable)
      end

      # Disables every provider.
      def disable!
        providers.values.each(&:disable)
      end

      # All providers, in order of registration.
      # @return [Array<Provider>]
      def all
        providers.values
      end

      # @api private
      def forget(provider)
        providers.delete_if { |_, p| p.equal?(provider) }
      end

      # Whether providers are enabled without {Provider#enable}: as {Rutile.enable!} or {Rutile.disable!}
      # said last, otherwise the environment.
      # @api private
      def auto_enable?
        Rutile.switched.nil? ? Configuration.environment.auto_enable? : Rutile.switched
      end

      # @api private
      def tracepoint_class
        Tracepoint
      end

      # Passes a tracepoint that another ractor declared to the main one, which adds it to its own when it
      # next uses a provider.
      # @api private
      def hand_over(tracepoint)
        native_hand_over(tracepoint) if Ractor.shareable?(tracepoint)
      end

      # @api private
      def adopt
        return unless Provider.equal?(self) && Rutile.main_ractor?

        while (tracepoint = native_next_handed)
          register(tracepoint.provider_name).add_tracepoint(tracepoint)
        end
      end

      private

      def providers
        @providers ||= {}
        adopt
        @providers
      end
    end

    # @return [String]
    attr_reader :namespace

    alias name namespace

    # Use {Provider.register}.
    # @api private
    def initialize(namespace)
      @namespace = namespace.dup.freeze
      @tracepoints = {}
      @batches = 0
      @methods = {}
      main = Rutile.main_ractor?
      native_create(@namespace, main)
      if main
        note_enabled(self.class.auto_enable?)
      else
        @enabled = native_enabled?(Configuration.environment.auto_enable?)
      end
    end

    # @return [Hash{String => Tracepoint}]
    def tracepoints
      self.class.adopt
      @tracepoints
    end

    # @overload add_tracepoint(name, *types, strict: false, names: nil)
    #   As {Tracepoint#initialize}.
    # @overload add_tracepoint(tracepoint)
    #   @param tracepoint [Tracepoint] one that was made for this provider
    # @return [Tracepoint]
    def add_tracepoint(tracepoint, *types, **options)
      return self.class.tracepoint_class.new(namespace, tracepoint, *types, **options) unless tracepoint.is_a?(Tracepoint)

      @tracepoints[tracepoint.name] = tracepoint
      publish if @enabled
      tracepoint.disable unless @enabled && Configuration.environment.default_on?(namespace, tracepoint.name)
      tracepoint
    end

    # Declares several tracepoints in one go, which is cheaper than one by one.
    # @yieldparam provider [Provider]
    def batch
      @batches += 1
      begin
        yield self
      ensure
        @batches -= 1
        publish if @enabled
      end
    end

    # Makes the tracepoints visible to tracers, also those that are added later.
    # @return [Boolean] false where tracing is not possible
    def enable
      note_enabled(true)
      publish
      each_tracepoint { |tp| tp.enable if Tracer.shows?(tp) }
      note_enabled(loaded? || @tracepoints.empty? || @batches.positive?)
    end

    # Hides the tracepoints. Tracers stay attached, and see them again after {#enable}.
    # @return [false]
    def disable
      each_tracepoint(&:disable)
      note_enabled(false)
    end

    # @return [Boolean]
    def enabled?
      @enabled
    end

    # The file in which other processes find the tracepoints, "/proc/PID/fd/N"; empty if not enabled.
    # There can be more: see {#paths}.
    # @return [String]
    def path
      publish if @enabled && !loaded?
      @enabled ? paths.first.to_s : ''
    end

    # Takes the tracepoints away for good: they stay valid objects that no tracer sees.
    # @return [nil]
    def destroy
      @enabled = false
      native_unload
      self.class.forget(self)
      nil
    end

    # Whether a method that fires the tracepoint of this name is wrapped.
    # @api private
    def wrapped?(name)
      @methods[name] ? @methods[name].keys.any?(&:wrapped) : false
    end

    # @api private
    def manage(entry)
      (@methods[entry.tracepoint.name] ||= ObjectSpace::WeakMap.new)[entry] = entry
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{namespace}#{' disabled' unless @enabled}: #{@tracepoints.keys.join(' ')}>"
    end

    private

    def note_enabled(enabled)
      self.native_enabled = enabled
      @enabled = enabled
    end

    # Those that are there now: other threads may add more meanwhile.
    def each_tracepoint(&block)
      tracepoints.values.each(&block) # rubocop:disable Style/HashEachMethods
    end

    def publish
      return if @batches.positive?

      error = native_load
      Rutile.debug("no tracepoints here: #{SystemCallError.new(error).message}") unless error.zero?
    end
  end
end
