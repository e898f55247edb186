# SPDX-License-Identifier: MIT
# Classes and code that come and go while the GC runs, step by step and at once: their addresses
# are used again for others.
def generation(i)
  Object.const_set(:"Gen#{i}", Class.new(String) do
    define_method(:up, String.instance_method(:upcase)) # a C method of this class
    def shared; end # the same code in every class
    class_eval("def ruby(n); n.zero? ? 0 : ruby(n - 1); end", __FILE__, 9000 + i)
  end)
end

def use(i, klass)
  (i % 7 + 1).times { klass.new("x").up }
  y = klass.new("y")
  y.ruby(i % 5)
  (i % 3 + 1).times { y.shared }
end

Harness.ready
300.times do |i|
  use(i, generation(i))
  Object.send(:remove_const, :"Gen#{i}")
  Array.new(20_000) { [] } if i % 3 == 0 # marks step by step
  GC.start if i % 10 == 0
  GC.start(full_mark: false) if i % 4 == 0
end
