# frozen_string_literal: true

require_relative 'lib/rutile/version'

# The C library's sources are those of rutile's tree, which ext/rutile/vendor links to. In a package they are
# plain files, so that it installs with nothing but Ruby's headers and a C compiler.
sources = %w[include/rutile/usdt.h] +
          %w[arena.c arena.h control.c ctl.h declare.c object.c object.h provider.c provider.h ring.c seat.c seat.h].map { |file| "src/usdt/#{file}" } +
          %w[read.c read.h ring.h write.h].map { |file| "src/ring/#{file}" } +
          %w[buf.c buf.h cleanup.h clock.h err.c err.h hash.c hash.h].map { |file| "src/base/#{file}" }

Gem::Specification.new do |spec|
  spec.name = 'rutile'
  spec.version = Rutile::VERSION
  spec.summary = 'Static tracepoints in Ruby code, free until traced'
  spec.description = 'Named, typed tracepoints that bpftrace, bcc, perf, SystemTap and rutile find in a running ' \
                     'process; tracers for methods; Rack, Rails and Sidekiq. Takes the place of ruby-static-tracing.'
  spec.authors = ['The rutile authors']
  spec.homepage = 'https://rubygems.org/gems/rutile'
  spec.license = 'MIT'
  spec.required_ruby_version = '>= 2.7'
  spec.files = Dir.chdir(__dir__) do
    Dir['lib/**/*.rb', 'ext/rutile/*.{c,h,rb}', 'README.md', 'LICENSE', '.yardopts'].sort +
      sources.map { |file| "ext/rutile/vendor/#{file}" }
  end
  spec.extensions = ['ext/rutile/extconf.rb']
  spec.require_paths = ['lib']
  spec.metadata = { 'rubygems_mfa_required' => 'true' }
end
