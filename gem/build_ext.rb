# frozen_string_literal: true

# Builds the extension outside of the tree, for the tests: build_ext.rb OUTDIR [CFLAGS]
# The result is OUTDIR/lib/rutile/rutile_ext.so.

require 'fileutils'
require 'rbconfig'

out = File.expand_path(ARGV.fetch(0))
flags = ARGV[1].to_s
work = File.join(out, 'ext')
lib = File.join(out, 'lib/rutile')
FileUtils.mkdir_p([work, lib])
extconf = File.expand_path('ext/rutile/extconf.rb', __dir__)
log = File.join(out, 'build.log')
args = flags.empty? ? [] : ["optflags=-O1 #{flags}", "LDSHARED=#{RbConfig::CONFIG['LDSHARED']} #{flags}"]
ok = system(RbConfig.ruby, extconf, chdir: work, out: log, err: %i[child out]) &&
     system('make', '-s', 'clean', chdir: work, out: [log, 'a'], err: %i[child out]) && # it knows of no headers
     system('make', '-s', *args, chdir: work, out: [log, 'a'], err: %i[child out])
abort(File.read(log)) unless ok
# By a new name first: a program that runs from the old file must not see it change.
FileUtils.cp(File.join(work, 'rutile_ext.so'), File.join(lib, 'rutile_ext.so.new'))
File.rename(File.join(lib, 'rutile_ext.so.new'), File.join(lib, 'rutile_ext.so'))
