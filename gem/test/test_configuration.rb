# frozen_string_literal: true

require_relative 'test_helper'

# Modes and signals. Each test in a process of its own: these are settings of a process.
class ConfigurationTest < Minitest::Test
  START = <<~'RUBY'
    require 'rutile/static_tracing'
    TP = Rutile::Tracepoint.new('a', 'b')
    CONFIG = Rutile::Configuration.instance
    def signal(name)
      Process.kill(name, $$)
      9_000.times { return true if yield || !sleep(0.01) }
      abort('it never happened')
    end
  RUBY

  def test_modes
    assert_equal <<~TEXT, ruby("#{START}#{<<~'RUBY'}")
      ON true
      false
      true
      no mode :on: it has to be one of ON, OFF, SIGNAL
    TEXT
      puts "#{CONFIG.mode} #{TP.on?}"
      CONFIG.mode = 'OFF'
      p TP.on?
      CONFIG.mode = 'ON'
      p TP.on?
      begin
        CONFIG.mode = :on
      rescue ArgumentError => e
        puts e.message
      end
    RUBY
  end

  # "Off until a signal comes", although all was visible before.
  def test_signal_mode_starts_with_off
    assert_equal "false\n", ruby("#{START}#{<<~'RUBY'}")
      CONFIG.mode = 'SIGNAL'
      p TP.on?
      signal(CONFIG.signal) { TP.on? }
      signal(CONFIG.signal) { !TP.on? }
    RUBY
  end

  def test_signals_are_given_back
    assert_equal "true\ntrue\ntrue\n[false, true]\n", ruby("#{START}#{<<~'RUBY'}")
      mine = proc { $mine = true }
      others = proc { $others = true }
      trap('USR1', mine)
      CONFIG.signal = 'USR1'
      CONFIG.mode = 'SIGNAL' # the signal is ours already
      CONFIG.mode = 'ON'
      p trap('USR1', mine).equal?(mine)
      # Never ours: the one that would be by default.
      trap(CONFIG.signal = 'USR2', others)
      CONFIG.signal = 'URG'
      p trap('USR2', 'DEFAULT').equal?(others)
      # A name that cannot be leaves nothing behind.
      begin
        CONFIG.signal = 'NONE'
      rescue ArgumentError
        p trap('URG', 'DEFAULT').end_with?('DEFAULT')
      end
      CONFIG.mode = 'OFF'
      CONFIG.signal = 'USR1'
      p [TP.on?, signal('USR1') { TP.on? }]
    RUBY
  end

  def test_an_environment_that_names_no_signal
    said = ruby("#{START}p TP.on?", env: { 'RUTILE_TRACEPOINTS' => 'signal:NONE' })
    assert_match(/\Arutile: RUTILE_TRACEPOINTS: unsupported signal .SIGNONE.\nfalse\n\z/, said)
    # One that cannot be handled.
    said = ruby("#{START}p TP.on?", env: { 'RUTILE_TRACEPOINTS' => 'signal:KILL' })
    assert_match(/\Arutile: RUTILE_TRACEPOINTS: Invalid argument - SIGKILL\nfalse\n\z/, said)
  end

  # What cannot be wrapped must not end the process that got a signal.
  def test_errors_in_the_handler
    assert_equal <<~TEXT, ruby("#{START}#{<<~'RUBY'}")
      rutile: cannot trace methods of Cart: can't modify frozen class: Cart (FrozenError)
      alive
    TEXT
      class Cart; def add; end; freeze; end
      Rutile::Tracer::Latency.register(Cart, :add)
      CONFIG.add_tracer(Rutile::Tracer::Latency)
      CONFIG.signal = 'USR1'
      $stderr.sync = $stdout.sync = true
      said = false
      Warning.extend(Module.new { define_method(:warn) { |*text, **more| super(*text, **more).tap { said = true } } })
      signal('USR1') { said }
      puts 'alive'
    RUBY
  end
end
