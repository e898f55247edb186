# SPDX-License-Identifier: MIT
# Methods written in C, by the line that calls them.
class Caller
  def initialize; @s = 'abc'; end

  def strings
    @s.upcase.reverse
    @s.sub(/b/, 'x')
    @s =~ /c/
  end

  def blocks
    [3, 1, 2].sort_by { |x| -x }
    [1, 2].each_slice(1) { |x| x.first }
    { a: 1 }.map { |k, v| [k, v] }
  end

  def raises
    Integer('x')
  rescue ArgumentError
    nil
  end

  def jumps
    catch(:done) { [1, 2].each { |x| throw :done if x == 1 } }
    [1, 2].each { |x| return x if x == 1 }
  end
end

Harness.ready
c = Caller.new
3.times { c.strings }
2.times { c.blocks }
4.times { c.raises }
2.times { c.jumps }
c.respond_to?(:strings)
c.frozen?
Math.sqrt(2)
