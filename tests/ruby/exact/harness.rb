# SPDX-License-Identifier: MIT
# Loaded before a program of this directory (ruby -r). By the environment:
#   EXACT=calls|c_calls|objects   count with Ruby's own means and print "LINE NAME COUNT" at the end
#   EXACT=wait                    in ready(): say so and wait for a line on standard input
#   EXACT_FROM=ready              count from ready() on, not from the first line
module Harness
  CALLS = { 'calls' => :call, 'c_calls' => :c_call }.freeze
  NAME = Module.instance_method(:name)
  INSPECT = Module.instance_method(:inspect)
  LOG = []
  PROGRAM = File.expand_path($0)

  module_function

  # The object of this singleton class.
  def attached(klass)
    return klass.attached_object if klass.respond_to?(:attached_object)

    ObjectSpace.each_object(klass) do |o|
      return o if Kernel.instance_method(:singleton_class).bind(o).call.equal?(klass)
    end
  end

  def class_name(klass)
    return NAME.bind(klass).call || INSPECT.bind(klass).call unless klass.singleton_class?

    object = attached(klass)
    return class_name(object) if Module === object

    "#<#{class_name(Kernel.instance_method(:class).bind(object).call)}>"
  end

  def start
    case ENV['EXACT']
    when 'calls', 'c_calls'
      event = CALLS[ENV['EXACT']]
      log = LOG
      program = $0
      @tp = TracePoint.new(event) do |t|
        log << [t.lineno, t.defined_class, t.method_id] if t.path == program
      end
      @tp.enable
    when 'objects'
      require 'objspace'
      GC.start
      GC.disable
      ObjectSpace.trace_object_allocations_start
    end
  end

  def ready
    if ENV['EXACT'] == 'wait'
      $stderr.puts 'ready'
      $stdin.gets
    elsif ENV['EXACT_FROM'] == 'ready'
      start
    end
  end

  def objects
    ObjectSpace.trace_object_allocations_stop
    counts = Hash.new(0)
    program = $0
    ObjectSpace.each_object(BasicObject) do |o|
      next unless ObjectSpace.allocation_sourcefile(o) == program

      klass = Kernel.instance_method(:class).bind(o).call
      counts["#{ObjectSpace.allocation_sourceline(o)} #{class_name(klass)}"] += 1
    end
    counts
  end

  def finish
    case ENV['EXACT']
    when 'calls', 'c_calls'
      @tp.disable
      counts = Hash.new(0)
      LOG.each do |line, klass, method|
        dot = klass.singleton_class? ? '.' : '#'
        counts["#{line} #{class_name(klass)}#{dot}#{method}"] += 1
      end
    when 'objects'
      counts = objects
    else
      return
    end
    puts(counts.sort.map { |k, n| "#{k} #{n}" })
  end
end

Harness.start if ENV['EXACT_FROM'] != 'ready'
at_exit { Harness.finish }
