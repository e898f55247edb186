# frozen_string_literal: true

require_relative 'test_helper'

# The extension under AddressSanitizer and UndefinedBehaviorSanitizer, valgrind, and the JIT compiler.
class SanitizersTest < Minitest::Test
  SUITES = %w[tracepoint tracer compat].freeze

  # Runs other tests in an environment; they must all pass.
  def run_tests(env, lib, *flags)
    SUITES.each do |name|
      out = IO.popen([env.merge('RUTILE_GEM_LIB' => lib), RbConfig.ruby, *flags, "-I#{LIB}", "-I#{lib}", File.join(__dir__, "test_#{name}.rb")],
                     err: %i[child out], &:read)
      assert $?.success? && out.match?(/^1\.\.\d+$/), "#{name}: #{out.lines.grep_v(/^ok /).first(40).join}"
    end
  end

  def library(name)
    path = IO.popen([RbConfig::CONFIG['CC'].split[0], "-print-file-name=#{name}"], &:read).chomp
    path if File.exist?(path)
  rescue SystemCallError
    nil
  end

  def test_address_and_undefined_behaviour
    asan = library('libasan.so')
    ubsan = library('libubsan.so')
    skip 'needs libasan and libubsan' unless asan && ubsan
    Dir.mktmpdir do |dir|
      out = IO.popen([RbConfig.ruby, File.expand_path('../build_ext.rb', __dir__), dir,
                      '-g -fsanitize=address,undefined -fno-sanitize-recover=undefined'], err: %i[child out], &:read)
      assert $?.success?, out
      # Ruby itself leaks on purpose at its end.
      run_tests({ 'LD_PRELOAD' => "#{asan} #{ubsan}", 'ASAN_OPTIONS' => 'detect_leaks=0:use_sigaltstack=0' }, "#{dir}/lib")
    end
  end

  # The library under ThreadSanitizer: probes fire, come, go and are switched while recorders come and go.
  def test_threads
    skip 'needs libtsan and rutile' unless library('libtsan.so') && ENV['RUTILE']
    top = File.expand_path('../..', __dir__)
    sources = %w[usdt/arena usdt/control usdt/declare usdt/object usdt/provider usdt/ring usdt/seat ring/read base/buf base/err base/hash]
    Dir.mktmpdir do |dir|
      out = IO.popen([RbConfig::CONFIG['CC'].split[0], '-g', '-O1', '-fsanitize=thread', '-std=gnu17', '-w', '-D_GNU_SOURCE', "-I#{top}/src",
                      "-I#{top}/include", "#{__dir__}/race.c", *sources.map { |source| "#{top}/src/#{source}.c" }, '-o', "#{dir}/race", '-lpthread',
                      { err: %i[child out] }], &:read)
      assert $?.success?, out
      IO.popen([{ 'TSAN_OPTIONS' => 'halt_on_error=0' }, "#{dir}/race", { err: "#{dir}/log" }]) do |program|
        pid = program.gets.to_i
        3.times { |i| system(ENV.fetch('RUTILE'), 'record', '-o', "#{dir}/#{i}", '-e', 'ruby_static:race', '-p', pid.to_s, '--duration', '400ms', err: File::NULL) }
      end
      assert $?.success?, File.read("#{dir}/log")
    end
  end

  def test_jit
    skip 'no YJIT in this Ruby' unless system(RbConfig.ruby, '--yjit', '-e', 'exit RubyVM::YJIT.enabled?', err: File::NULL)
    run_tests({ 'RUBYOPT' => '--yjit --yjit-call-threshold=2' }, EXT)
  end

  def test_valgrind
    skip 'needs valgrind' unless system('command -v valgrind >/dev/null')
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      require ARGV[0]
      tps = 12.times.map { |i| Rutile::Tracepoint.new("vg#{i % 3}", "p#{i}", Integer, String, Float) }
      tps.each { |tp| TestSupport.semaphore(tp, 1) }
      20.times { |i| tps.each { |tp| tp.fire(i, 'x' * i, 1.5); tp.fire { [2**80, :s, 1] } } }
      tps.map(&:provider).uniq.each { |p| p.disable; p.enable; p.destroy }
      Process.wait(fork { Rutile::Tracepoint.new('child', 'x').fire; exit!(0) })
      GC.start
      puts 'done'
      exit!(0)
    RUBY
    log = IO.popen(['valgrind', '--undef-value-errors=no', '--leak-check=no', RbConfig.ruby, "-I#{LIB}", "-I#{EXT}", '-e', code, '--',
                    File.expand_path('test_helper.rb', __dir__)], err: %i[child out], &:read)
    assert_includes log, "done\n"
    # Ruby touches its whole stack at the start; what names our code is ours.
    blamed = log.split(/^==\d+== $/).grep(/Invalid|uninit/).grep(/rutile/)
    assert_empty blamed
  end
end
