# frozen_string_literal: true

module Rutile
  # Control from outside: `rutile tracepoints PID`. The extension opens a page in a sealed memfd, which
  # the kernel lets only the same user and root reach through /proc/PID/fd.
  module Control
    class << self
      # Opens the process to `rutile tracepoints`. Done when the gem is loaded, unless RUTILE_CONTROL is
      # "off". Forked children are opened by themselves.
      # @return [Boolean]
      def start
        return false if ENV['RUTILE_CONTROL'] == 'off'

        error = native_start
        Rutile.debug("no control from outside: #{SystemCallError.new(error).message}") unless error.zero?
        error.zero?
      end

      # Closes it again.
      def stop
        native_stop
      end

      # Does what was asked from outside and needs Ruby code. Called by the extension.
      # @api private
      def sync
        Tracer.wrappings.each do |wrapping|
          wrapping.entries.each_value do |entry|
            wanted = entry.tracepoint.native_wanted
            wrapping.switch(entry, wanted) unless wanted.nil?
          end
        end
      end

      # @api private
      def report(error)
        Rutile.debug("control: #{error.class}: #{error.message}")
      end

      # Whether nobody in this process handles a signal.
      # @param name [String]
      # @api private
      def free?(name)
        number = Signal.list[name.to_s.delete_prefix('SIG')]
        number ? signal_free?(number) : false
      end
    end
  end
end
