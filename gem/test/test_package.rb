# frozen_string_literal: true

RUTILE_TEST_WITHOUT_GEM = true
require_relative 'test_helper'

# `gem build`, `gem install` on a machine with Ruby's headers and a C compiler, and use.
class PackageTest < Minitest::Test
  GEM = File.expand_path('..', __dir__)

  def run!(*command, **options)
    out = IO.popen([*command, { err: %i[child out], **options }], &:read)
    assert $?.success?, out
    out
  end

  def test_build_install_and_use
    Dir.mktmpdir do |dir|
      package = File.join(dir, 'rutile.gem')
      run!('gem', 'build', '--strict', 'rutile.gemspec', '-o', package, chdir: GEM)
      listed = run!('gem', 'specification', package, 'files')
      assert_includes listed, 'ext/rutile/vendor/src/usdt/provider.c'
      # Nowhere near the tree.
      run!('gem', 'install', '--local', '--no-document', '--install-dir', "#{dir}/gems", package, chdir: dir)
      code = <<~'RUBY'
        gem 'rutile'
        require 'rutile/static_tracing'
        require 'ruby-static-tracing'
        tp = Rutile::Tracepoint.new('a', 'b', Integer)
        p defined?(Rutile::NULL), tp.on?, $LOADED_FEATURES.grep(/rutile_ext/).first.start_with?(ARGV[0])
      RUBY
      out = run!({ 'GEM_HOME' => "#{dir}/gems", 'GEM_PATH' => nil }, RbConfig.ruby, '-e', code, "#{dir}/gems", chdir: dir)
      assert_equal "nil\ntrue\ntrue\n", out
      spec = Gem::Specification.load(Dir["#{dir}/gems/specifications/*.gemspec"].first)
      assert_empty spec.dependencies
    end
  end

  # What a tree needs to build the gem from.
  TREE = %w[gem include src/base src/ring src/usdt LICENSE].freeze

  # A copy of the tree without what was built in it.
  def tree(dir)
    TREE.each do |part|
      FileUtils.mkdir_p(File.dirname("#{dir}/#{part}"))
      run!('cp', '-a', File.expand_path("../#{part}", GEM), "#{dir}/#{part}")
    end
    FileUtils.rm_rf(Dir["#{dir}/gem/{tmp,pkg,lib/rutile/[0-9]*}"])
  end

  # Runs a command where the tree cannot be written to, by root neither.
  def read_only(dir, *command, **options)
    env = command.first.is_a?(Hash) ? [command.shift] : []
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    run!(*env, 'unshare', '--mount', '--propagation', 'private', 'sh', '-c', script, dir, *command, **options)
  end

  PROGRAM = <<~'RUBY'
    require 'rutile'
    require 'rutile/static_tracing'
    require 'ruby-static-tracing'
    tp = Rutile::Tracepoint.new('a', 'b', Integer)
    Process.wait(fork { tp.fire(1) })
    p tp.on?
  RUBY

  # Runs the program with a Gemfile of this one gem.
  def bundled(dir, source, &block)
    FileUtils.mkdir_p(dir)
    File.write("#{dir}/Gemfile", "gem 'rutile', #{source}\n")
    env = { 'BUNDLE_GEMFILE' => "#{dir}/Gemfile", 'BUNDLE_PATH' => "#{dir}/bundle", 'BUNDLE_SILENCE_ROOT_WARNING' => '1',
            'HOME' => dir, 'RUBYLIB' => nil, 'RUBYOPT' => nil, 'RUTILE_TRACEPOINTS' => nil }
    block.call([env, 'bundle', 'exec', RbConfig.ruby, '-e', PROGRAM], env)
  end

  def needs_root_and_bundler
    skip 'needs root and unshare' unless Process.uid.zero? && system('unshare --mount true 2>/dev/null')
    skip 'needs bundler' unless system('command -v bundle >/dev/null')
  end

  # Loading and building the gem writes nothing into its tree. Without the extension that is reported once, by
  # no children and however the gem is required; with it all works.
  def test_read_only_tree
    needs_root_and_bundler
    Dir.mktmpdir do |dir|
      tree("#{dir}/tree")
      read_only("#{dir}/tree", 'gem', 'build', '--strict', 'rutile.gemspec', '-o', "#{dir}/rutile.gem", chdir: "#{dir}/tree/gem")
      bundled("#{dir}/app", "path: '#{dir}/tree/gem'") do |command, _|
        said = read_only("#{dir}/tree", *command, chdir: "#{dir}/app").lines
        assert_equal ['rutile: no tracepoints here: cannot load such file -- rutile/rutile_ext: run `rake compile` ' \
                      "in #{dir}/tree/gem\n", "false\n"], said
        run!('rake', 'compile', chdir: "#{dir}/tree/gem")
        assert_equal "true\n", read_only("#{dir}/tree", *command, chdir: "#{dir}/app")
      end
    end
  end

  def test_bundler_with_git
    needs_root_and_bundler
    skip 'needs git' unless system('command -v git >/dev/null')
    Dir.mktmpdir do |dir|
      tree("#{dir}/tree")
      git = ['git', '-c', 'user.name=x', '-c', 'user.email=x@example.com', '-C', "#{dir}/tree"]
      [%w[init -q], %w[add -A], %w[commit -qm x]].each { |command| run!(*git, *command) }
      bundled("#{dir}/app", "git: '#{dir}/tree'") do |command, env|
        run!(env, 'bundle', 'install', '--quiet', chdir: "#{dir}/app")
        assert_equal "true\n", run!(*command, chdir: "#{dir}/app")
      end
    end
  end

  # Where tracing is switched off the extension is not needed.
  def test_without_the_extension
    code = "require 'rutile/static_tracing'; p Rutile::NULL, Rutile::Tracepoint.new('a', 'b', Integer).fire(1)"
    said = { nil => 1, 'on' => 1, 'off' => 0 }.map do |value, _|
      run!({ 'RUTILE_TRACEPOINTS' => value }, RbConfig.ruby, '--disable-gems', "-I#{GEM}/lib", '-e', code)
    end
    assert_equal([1, 1, 0], said.map { |text| text.scan(/^rutile: no tracepoints/).size })
    said.each { |text| assert text.end_with?("true\nfalse\n") }
  end

  def test_licence
    assert_equal File.read("#{GEM}/../LICENSE"), File.read("#{GEM}/LICENSE")
  end

  # Every C source that the extension is built from is in the package.
  def test_package_has_what_the_extension_includes
    files = Dir.chdir(GEM) { Gem::Specification.load('rutile.gemspec').files }
    needed = File.read("#{GEM}/ext/rutile/extconf.rb").scan(/'(usdt|base)' => %w\[([^\]]+)\]/)
                 .flat_map { |dir, names| names.split.map { |name| "ext/rutile/vendor/src/#{dir}/#{name}.c" } }
    assert_operator needed.size, :>=, 5
    assert_empty needed - files
    files.grep(/\.[ch]\z/).each do |file|
      File.read(File.join(GEM, file)).scan(%r{^#include "((?:usdt|base)/[^"]+|rutile/[^"]+)"}).flatten.each do |included|
        assert(files.any? { |f| f.end_with?("/#{included}") }, "#{file} includes #{included}")
      end
    end
  end
end
