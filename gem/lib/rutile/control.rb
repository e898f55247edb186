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
      #
      # Several methods may share a tracepoint, and switching a tracepoint settles the request. So all
      # requests are read before the first is carried out.
      # @api private
      def sync
        asked = Tracer.wrappings.flat_map { |wrapping| wishes(wrapping) }
        asked.each { |wrapping, entry, wanted| wrapping.place(entry, wanted) }
        asked.each { |wrapping, entry, _| wrapping.show(entry) }
      end

      # @api private
      def report(error)
        Rutile.debug("control: #{error.class}: #{error.message}")
      end

      # Whether a signal has no handler in this process.
      # @param name [String]
      # @api private
      def free?(name)
        number = Signal.list[name.to_s.delete_prefix('SIG')]
        number ? signal_free?(number) : false
      end

      private

      def wishes(wrapping)
        wrapping.entries.values.map { |entry| [wrapping, entry, entry.tracepoint.native_wanted] }
                .reject { |_, _, wanted| wanted.nil? }
      end
    end
  end
end
