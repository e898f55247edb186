# frozen_string_literal: true

require 'rbconfig'

# Loads the extension: the installed one, or one that `rake compile` put beside this file, of which there may
# be several for several Rubies. Without it everything can be declared and nothing is ever traced. Where it
# could have been built that is reported, once.

error = nil
['rutile/rutile_ext', "rutile/#{RbConfig::CONFIG['ruby_version']}/rutile_ext"].each do |file|
  require file
  error = nil
  break
rescue LoadError => e
  error = e unless error && e.path == file # the first one, unless the second is there and cannot be loaded
end

if error
  require 'rutile/null'
  supported = RUBY_ENGINE == 'ruby' && RUBY_PLATFORM.match?(/\A(?:x86_64|aarch64)-linux/)
  tree = File.expand_path('../..', __dir__)
  remedy = File.exist?("#{tree}/Rakefile") ? "run `rake compile` in #{tree}" : 'run `gem pristine rutile --extensions`'
  if !supported
    Rutile.debug("no tracepoints here: #{RUBY_ENGINE} on #{RUBY_PLATFORM}")
  elsif ENV['RUTILE_TRACEPOINTS'] != 'off'
    Rutile.say("no tracepoints here: #{error.message}: #{remedy}")
  end
end
