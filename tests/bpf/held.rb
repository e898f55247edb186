# SPDX-License-Identifier: MIT
# held.rb FILE: prints "ready", waits for FILE, prints "held", and waits for ever in a function of C, with Ruby's lock (GVL).
require 'fiddle'

lock = Fiddle::Function.new(Fiddle::Handle::DEFAULT['pthread_mutex_lock'], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT, need_gvl: true)
mutex = "\0" * 64
lock.call(mutex)
$stdout.sync = true
puts 'ready'
sleep 0.01 until File.exist?(ARGV[0])
puts 'held'
lock.call(mutex)
