# SPDX-License-Identifier: MIT
# A server in which another version of rutile has left its agent: its page is all that there is of it.
page = File.for_fd(syscall(319, 'rutile-agent-1', 0)) # memfd_create
page.truncate(65_536)
def work; sleep 0.001; end
$stdout.sync = true
puts 'ready'
loop { work }
