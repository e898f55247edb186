# frozen_string_literal: true

module Rutile
  # What {Rutile.span} yields: the span that runs, with the identifiers of W3C Trace Context. It holds while the
  # block runs, in its fiber.
  #
  #     Rutile.span('charge', order: 7) do |span|
  #       response = gateway.charge
  #       span[:code] = response.code     # does nothing while it is not traced
  #     end
  #
  # Tracepoints of the provider "span": begin(trace, span, parent, name) and
  # end(trace, span, parent, name, duration in ns, class of the exception or nil, attributes as text). The
  # identifiers are hexadecimal text; a span without a parent has an empty one.
  class Span
    # @return [Rutile::Tracepoint]
    BEGIN_POINT = Tracepoint.new('span', 'begin', String, String, String, String)
    # @return [Rutile::Tracepoint]
    END_POINT = Tracepoint.new('span', 'end', String, String, String, String, Integer, String, String)

    native_points(BEGIN_POINT, END_POINT)
  end
end
