# frozen_string_literal: true

module Rutile
  module Tracer
    # The callers of a method, when it is entered: fires (method, the caller's stack with one frame a line, part,
    # parts). A stack that is longer than what a tracer takes of one text is fired in parts, counted from 1.
    class Stack < Base
      # Bytes of one text that the ring of `rutile record` takes whole.
      PART_BYTES = 4000
      private_constant :PART_BYTES

      set_body <<~'RUBY'
        ::Rutile::Tracer::Stack.report(%<tp>s, %<label>s, ::Kernel.caller(1)) if %<tp>s.enabled?
        super(*args, &block)
      RUBY
      set_tracepoint_data_types(String, String, Integer, Integer)

      # @api private
      def self.report(tracepoint, method, frames)
        parts = parts(Helpers.stack(frames))
        parts.each_with_index { |part, i| tracepoint.fire(method, part, i + 1, parts.size) }
      end

      # A text in parts that are short enough, at ends of lines where that is possible.
      # @return [Array<String>] what joins to the text
      def self.parts(text)
        return [text] if text.bytesize <= PART_BYTES

        text.lines.flat_map { |line| pieces(line) }.each_with_object([+'']) do |piece, parts|
          parts << +'' if parts.last.bytesize + piece.bytesize > PART_BYTES
          parts.last << piece
        end
      end

      # A part of a character that is cut is none: pieces are counted in characters then.
      def self.pieces(line)
        line.bytesize <= PART_BYTES ? [line] : line.scan(/.{1,#{PART_BYTES / 4}}\n?/m)
      end
      private_class_method :parts, :pieces
    end
  end
end
