# frozen_string_literal: true

# What tracepoints fire, in this process.
module Recorded
  # Tracepoints are frozen, so their class is what is intercepted, and only while it is.
  module Interceptor; end
  Rutile::Tracepoint.prepend(Interceptor)

  # Pretends to trace; returns the name and the values of each event.
  def recorded(*tracepoints)
    values = []
    tracepoints.each { |tp| TestSupport.semaphore(tp, 1) }
    Interceptor.define_method(:fire) do |*args, &block|
      got = args.empty? && block && enabled? ? Array(block.call) : args
      values << [name, *got] if enabled? && tracepoints.any? { |tp| tp.name == name && tp.provider_name == provider_name }
      super(*got)
    end
    yield
    values
  ensure
    Interceptor.remove_method(:fire)
    tracepoints.each { |tp| TestSupport.semaphore(tp, -1) }
  end
end
