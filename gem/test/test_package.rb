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
