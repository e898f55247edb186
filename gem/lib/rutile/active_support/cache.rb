# frozen_string_literal: true

module Rutile
  module ActiveSupport
    # Keeps notifications that are not traced as fast as without the gem.
    #
    # ActiveSupport does all the work of a notification, more than a microsecond of it, as soon as one
    # listener exists. So ours must be in the list of listeners only while its tracepoint is traced, which
    # no event in the process announces. ActiveSupport remembers for each name the list of its listeners.
    # Where it puts a list in its memory we put a {Listeners} instead, which decides when it is asked. Nothing
    # is added to the path of a notification.
    #
    # The memory is an internal of ActiveSupport: @listeners_for until 7.0, @all_listeners_for since. Since
    # 7.1 it also remembers groups of listeners that can be silenced. If a future version has neither, our
    # listeners are ordinary ones: slower, and otherwise the same.
    # @api private
    module Cache
      # For the memory of lists. ActiveSupport stores under its own lock.
      module Lists
        attr_accessor :rutile_groups

        def []=(name, listeners)
          list = ActiveSupport.filter(name, listeners)
          rutile_groups[name] = Cache.groups(list) if rutile_groups && list.is_a?(Listeners)
          super(name, list)
        end
      end

      # Stands for the Hash of silenceable listeners by group.
      class Groups < Listeners
        def each
          return to_enum unless block_given?

          super { |pair| yield(*pair) }
        end
      end

      class << self
        def install(notifier)
          lists = memory(notifier, :@all_listeners_for) || memory(notifier, :@listeners_for)
          return Rutile.debug('this ActiveSupport is not known: notifications are slower') unless lists
          return if lists.is_a?(Lists)

          lists.extend(Lists)
          lists.rutile_groups = memory(notifier, :@silenceable_groups_for)
        end

        # Forgets the lists that were made before a subscription was known.
        def clear(notifier)
          %i[@all_listeners_for @listeners_for @groups_for @silenceable_groups_for].each do |name|
            memory(notifier, name)&.clear
          end
        end

        # The silenceable listeners, by group, as ActiveSupport makes them.
        def groups(list)
          idle, all = [list.idle, list.all].map do |listeners|
            listeners.select(&:silenceable).group_by(&:group_class).transform_values { |group| group.map(&:delegate) }
          end
          Groups.new(idle.to_a, all.to_a, list.gates)
        end

        private

        def memory(notifier, name)
          notifier.instance_variable_get(name) if notifier.instance_variable_defined?(name)
        end
      end
    end
  end
end
