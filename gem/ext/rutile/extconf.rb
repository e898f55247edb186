# frozen_string_literal: true

# Builds the extension with the C library in it. The library's sources are under vendor/: files in a
# package, links to where they are in rutile's own tree.

require 'mkmf'

library = File.expand_path('vendor', __dir__)

if RUBY_ENGINE != 'ruby' || RUBY_PLATFORM =~ /mswin|mingw|java/
  # The gem works without the extension, and does nothing then.
  File.write('Makefile', dummy_makefile($srcdir).join)
else
  modules = { 'usdt' => %w[arena control declare object provider ring seat], 'base' => %w[buf err hash] }
  modules['ring'] = %w[read] if RUBY_PLATFORM.include?('linux')
  modules.each_key { |dir| $VPATH << File.join(library, 'src', dir) }
  $srcs = Dir[File.join(__dir__, '*.c')].map { |path| File.basename(path) } + modules.values.flatten.map { |m| "#{m}.c" }
  $INCFLAGS << " -I#{__dir__} -I#{File.join(library, 'src')} -I#{File.join(library, 'include')}"
  $CPPFLAGS << ' -D_GNU_SOURCE'
  $CFLAGS << ' -std=gnu17 -fvisibility=hidden -fno-strict-aliasing -Wall -Wextra -Wno-unused-parameter'
  # Ruby's own flags ask for declarations first; the library is newer than that.
  $warnflags = $warnflags.to_s.gsub('-Wdeclaration-after-statement', '')
  have_func('rb_ext_ractor_safe', 'ruby.h')
  have_func('rb_postponed_job_preregister', 'ruby/debug.h')
  have_library('pthread')
  create_makefile('rutile/rutile_ext')
end
