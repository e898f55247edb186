# frozen_string_literal: true

# Minitest that speaks TAP, and what several tests need.

gem 'minitest'
require 'minitest'
require 'fileutils'
require 'rbconfig'
require 'tempfile'
require 'timeout'
require 'tmpdir'

$stdout.sync = true

# One line a test.
class TapReporter < Minitest::AbstractReporter
  def initialize
    super
    @count = 0
    @ok = true
  end

  def record(result)
    @count += 1
    name = "#{result.klass}.#{result.name}" # a # would begin a directive
    if result.skipped?
      puts "ok #{@count} - #{name} # SKIP #{result.failure.message.lines.first}"
    elsif result.passed?
      puts "ok #{@count} - #{name}"
    else
      @ok = false
      puts "not ok #{@count} - #{name}"
      why = result.failures.map { |failure| "#{failure.message}\n#{failure.backtrace.first(8).join("\n")}" }.join("\n")
      puts why.gsub(/^/, '# ')
      # The TAP's reader may not show comments.
      warn "#{name}:\n#{why}"
    end
  end

  def report
    puts "1..#{@count}"
  end

  def passed?
    @ok
  end
end

module TestSupport
  LIB = File.expand_path('../lib', __dir__)
  EXT = ENV.fetch('RUTILE_GEM_LIB') { File.expand_path('../../build/gem/lib', __dir__) }
  LIMIT = 120

  # Runs Ruby code in a process of its own; returns what it printed. Fails if it fails.
  def ruby(code, *args, env: {}, flags: [])
    out = IO.popen([env, RbConfig.ruby, *flags, "-I#{LIB}", "-I#{EXT}", '-e', code, *args], err: %i[child out], &:read)
    assert $?.success?, "exit #{$?.inspect}: #{out}"
    out
  end

  # Starts Ruby code that runs on; yields its pid, its output and its input, and ends it.
  def running(code, *args, env: {})
    reader, writer = IO.pipe
    mine, theirs = IO.pipe
    pid = spawn(env, RbConfig.ruby, "-I#{LIB}", "-I#{EXT}", '-e', code, '--', *args, in: mine, out: writer, err: writer)
    writer.close
    mine.close
    Timeout.timeout(LIMIT) { yield pid, reader, theirs }
  ensure
    if pid
      Process.kill('KILL', pid)
      Process.wait(pid)
    end
    [reader, theirs].each { |io| io&.close }
  end

  # The condition is expected to come true; the limit is for tests that fail.
  def eventually
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
    until (value = yield)
      flunk 'it never happened' if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.02
    end
    value
  end

  def bpftrace?
    Process.uid.zero? && system('command -v bpftrace >/dev/null')
  end

  # Attaches bpftrace, yields when it is attached, and returns what it printed until it ended. The script
  # must print "ready" at BEGIN, and end by itself or by SIGINT after the block.
  def bpftrace(*args)
    skip 'needs root and bpftrace' unless bpftrace?
    Tempfile.create('bpftrace') do |out|
      pid = spawn({ 'BPFTRACE_STRLEN' => '100' }, 'bpftrace', *args, in: '/dev/null', out: out.path, err: %i[child out])
      begin
        eventually do
          pid = nil if Process.wait(pid, Process::WNOHANG)
          flunk(File.read(out.path)) unless pid
          File.read(out.path).include?('ready')
        end
        yield out.path
        # Told again: one signal alone can get lost while it is still attaching.
        told = 0
        eventually do
          Process.kill('INT', pid) if ((told += 1) % 50) == 1
          Process.wait(pid, Process::WNOHANG)
        end
        pid = nil
      ensure
        if pid
          Process.kill('KILL', pid)
          Process.wait(pid)
        end
      end
      File.read(out.path)
    end
  end

  # Makes a tracepoint believe that it is traced: adds to its semaphore, as the kernel would.
  def traced(tracepoint)
    TestSupport.semaphore(tracepoint, 1)
    yield
  ensure
    TestSupport.semaphore(tracepoint, -1)
  end

  def self.semaphore(tracepoint, by)
    name = "#{tracepoint.provider_name}_#{tracepoint.name}_semaphore"
    tracepoint.provider.paths.each do |path|
      offset = `readelf -sW #{path} 2>/dev/null`[/^ *\d+: (\h+) .* #{Regexp.escape(name)}$/, 1]
      next unless offset

      inode = File.stat(path).ino
      line = File.readlines('/proc/self/maps').find { |l| l =~ /rw-p (\h+) \S+ #{inode} / && Regexp.last_match(1).hex <= offset.hex }
      address = line[/\A\h+/].hex + offset.hex - line[/rw-p (\h+)/, 1].hex
      File.open('/proc/self/mem', 'r+b') do |mem|
        mem.seek(address)
        old = mem.read(2).unpack1('S')
        mem.seek(address)
        mem.write([old + by].pack('S'))
      end
      return
    end
    raise "no #{name}"
  end
end

class Minitest::Test
  include TestSupport
end

Minitest.singleton_class.prepend(Module.new do
  def init_plugins(options)
    super
    reporter.reporters.replace([TapReporter.new])
  end
end)
Minitest.extensions.clear
Minitest.autorun

require 'rutile/static_tracing' unless defined?(RUTILE_TEST_WITHOUT_GEM)
