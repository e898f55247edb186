# frozen_string_literal: true

module Rutile
  module Tracer
    # What tracers have in common. A tracer of one's own is a subclass:
    #
    #     class Calls < Rutile::Tracer::Base
    #       set_wrapping_function(lambda do |*args, &block|
    #         Rutile::Tracepoint.fetch('shop', 'called').fire(__method__)
    #         super(*args, &block)
    #       end)
    #       set_tracepoint_data_types(Symbol)
    #     end
    class Base
      # A class may define singleton methods of these names.
      PUBLIC_METHODS = Module.instance_method(:public_instance_methods)
      METHOD_DEFINED = Module.instance_method(:method_defined?)
      PRIVATE_DEFINED = Module.instance_method(:private_method_defined?)
      INSTANCE_METHOD = Module.instance_method(:instance_method)
      private_constant :PUBLIC_METHODS, :METHOD_DEFINED, :PRIVATE_DEFINED, :INSTANCE_METHOD

      class << self
        # Names methods to be traced. They are not touched before the tracer, or one of the tracepoints,
        # is enabled.
        #
        # @param klass [Module] a class, a module, or a singleton class (`Shop.singleton_class`)
        # @param method_names [Array<Symbol>] none: all public methods that the class itself defines
        # @param provider [String, nil] default: the class's name in snake case. A tracer traces a method
        #   once: registering it again for another provider moves it there.
        # @return [Array<Tracepoint>]
        # @raise [NameError] if an instance of the class has no such method
        def register(klass, *method_names, provider: nil)
          raise ArgumentError, "not a class or module: #{klass.inspect}" unless Module === klass # rubocop:disable Style/CaseEquality

          names = method_names.empty? ? PUBLIC_METHODS.bind(klass).call(false) : method_names.flatten
          registry = provider_class.register(provider || default_provider(klass))
          tracepoints = []
          registry.batch { tracepoints = names.map { |name| register_method(klass, registry, name.to_sym) } }
          wrapping_of(klass)&.switch_all(true) if enabled?
          tracepoints
        end

        # Names all public methods, also those of the modules themselves, of a module and all modules below
        # it that are loaded.
        #
        # @param namespace [Module]
        # @return [Array<Tracepoint>]
        def register_namespace(namespace)
          below(namespace).flat_map do |mod|
            [mod, Kernel.instance_method(:singleton_class).bind(mod).call].flat_map do |target|
              names = PUBLIC_METHODS.bind(target).call(false)
              names.empty? ? [] : register(target, *names, provider: default_provider(mod))
            end
          end
        end

        # Wraps all registered methods, also those that are registered later. A method that cannot be wrapped,
        # as of a frozen class, is reported once on standard error; the others are wrapped.
        # @return [true]
        # @raise [BaseError] if the tracer does not say what to do
        def enable!
          raise BaseError, "#{self} does not say what to do: it needs set_wrapping_function" unless body || wrapping_function

          wrappings.each { |wrapping| wrapping.switch_all(true) }
          @enabled = true
        end

        # Unwraps them.
        # @return [false]
        def disable!
          wrappings.each { |wrapping| wrapping.switch_all(false) }
          @enabled = false
        end

        # @return [Boolean]
        def enabled?
          (defined?(@enabled) && @enabled) || false
        end

        # The text of the wrapping method's body: %<tp>s is the tracepoint, %<label>s the name. Like what
        # follows, that of the class above if the tracer has none of its own.
        # @api private
        def body
          own_part(:@body) || inherited_part(:body)
        end

        # @api private
        def wrapping_function
          own_part(:@wrapping_function) || (own_part(:@body) ? nil : inherited_part(:wrapping_function))
        end

        protected

        def tracepoint_data_types
          own_part(:@data_types) || inherited_part(:tracepoint_data_types) || []
        end

        private

        # nil, also if it was never set, of which Ruby 2.7 would warn.
        def own_part(name)
          instance_variable_get(name) if instance_variable_defined?(name)
        end

        def inherited_part(name)
          superclass.send(name) unless equal?(Base)
        end

        # The function that is called instead of each method; it calls the method by `super`.
        # @param callable [Proc]
        # @!visibility public
        def set_wrapping_function(callable) # rubocop:disable Naming/AccessorMethodName
          @wrapping_function = callable
        end

        # The types of the values that the function fires.
        # @!visibility public
        def set_tracepoint_data_types(*types) # rubocop:disable Naming/AccessorMethodName
          @data_types = types
        end

        def set_body(text) # rubocop:disable Naming/AccessorMethodName
          @body = text
        end

        def provider_class
          Provider
        end

        def tracepoint_name(method, _provider = nil)
          Helpers.shorten(Helpers.probe_name(method), "_#{Helpers.underscore(name.to_s[/[^:]+\z/].to_s)}")
        end

        def default_provider(klass)
          Helpers.shorten(Helpers.underscore(Helpers.module_name(klass) || 'anonymous').gsub(/[^!-9;-~]/, '_'))
        end

        def wrappings
          Tracer.wrappings.select { |wrapping| wrapping.tracer.equal?(self) }
        end

        # From a class to its wrapping. Weak; Tracer keeps the wrapping while the class lives.
        def wrapping_of(klass)
          (@wrappings ||= ObjectSpace::WeakMap.new)[klass]
        end

        def register_method(klass, provider, method)
          raise NameError.new("undefined method '#{method}' for #{klass.inspect}", method) unless answers?(klass, method)

          Rutile.exclusively do
            wrapping = wrapping_of(klass) || (@wrappings[klass] = Wrapping.new(self, klass))
            entry = wrapping.entries[method]
            entry = add_entry(wrapping, provider, method) unless entry && entry.provider.equal?(provider)
            entry.tracepoint
          end
        end

        def add_entry(wrapping, provider, method)
          tracepoint = provider.add_tracepoint(tracepoint_name(method, provider), *tracepoint_data_types)
          entry = wrapping.add(method, provider, tracepoint)
          # One that is wrapped in an older version of a reloaded class is wrapped in the new one.
          wrapping.switch(entry, provider.wrapped?(tracepoint.name) ||
                                 Configuration.environment.asked_for?(provider.namespace, tracepoint.name))
          entry
        end

        def answers?(klass, method)
          METHOD_DEFINED.bind(klass).call(method) || PRIVATE_DEFINED.bind(klass).call(method) ||
            (Class === klass && INSTANCE_METHOD.bind(klass).call(:method_missing).owner != BasicObject) # rubocop:disable Style/CaseEquality
        end

        def below(mod, seen = {}.compare_by_identity)
          seen[mod] = true
          mod.constants(false).each do |name|
            next if mod.autoload?(name)

            child = mod.const_get(name, false)
            next unless child.is_a?(Module) && !seen.key?(child)

            below(child, seen) if Helpers.module_name(child).to_s.start_with?("#{Helpers.module_name(mod)}::")
          end
          seen.keys
        end
      end
    end
  end
end
