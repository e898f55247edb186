# SPDX-License-Identifier: MIT
# Calls with a mark, a system call whose path is the mark's name, at places of many kinds; and what
# Ruby itself says of the stack there: one line a mark, "NAME<TAB>label@line<TAB>...", innermost first.
# Labels are those of Ruby 3.3 and before: without the class.
# With a second argument it first waits until that file is there.
sleep 0.01 until ARGV[1].nil? || File.exist?(ARGV[1])
$out = File.open(ARGV[0], "w")
$n = 0

def mark(name)
  File.exist?("/rutile-mark/#{name}")
  frames = caller_locations(1).map do |l|
    "#{l.label.sub(/\A(.* in )?([A-Z]\w*(?:::[A-Z]\w*)*[#.])/) { $1.to_s }}@#{l.lineno}"
  end
  $out.puts [name, *frames].join("\t")
end

def deep(n)
  n == 0 ? mark("deep") : deep(n - 1)
end

module Shop
  class Order
    attr_accessor :lines

    def total
      mark("method")
      [1].each { |x| mark("block") }
      helper(
        1,
        2
      )
    end

    def helper(a, b)
      mark("helper")
    rescue StandardError
      0
    ensure
      mark("ensure")
    end

    def raises
      raise "no"
    rescue
      mark("rescue")
    end

    def self.load
      mark("singleton")
    end

    class << self
      def build
        1.times { mark("in-eigenclass") }
      end
    end

    define_method(:dynamic) { mark("bmethod") }

    def method_missing(name, *)
      mark("missing")
    end

    def respond_to_missing?(*)
      true
    end
  end

  class Special < Order
    def total
      super
      mark("super")
    end
    class_eval <<~CODE, "/app/generated.rb", 400
      def generated

        mark("eval")
      end
    CODE
  end
end

# A long method: lines beyond what Ruby keeps in its immediate table.
lines = (1..400).map { |i| "  x += #{i} * x - (x ? 1 : 2)" }
eval "def long(x)\n#{lines.join("\n")}\n  mark('long')\n#{lines.join("\n")}\n  mark('longer')\nend", binding, "/app/long.rb", 1

2.times do
  o = Shop::Special.new
  o.total
  o.raises
  o.dynamic
  o.generated
  o.anything
  Shop::Order.load
  Shop::Special.build
  long(1)
  deep(10)
  deep(300)
  Thread.new { mark("thread") }.join
  Fiber.new { mark("fiber"); Fiber.yield; mark("fiber-again") }.tap(&:resume).resume
  Enumerator.new { |y| mark("enumerator"); y << 1 }.next
  [3, 1].sort_by { |x| mark("sort_by"); x }
  { a: 1 }.map { |k, v| mark("hash") }
  proc { mark("proc") }.call
  lambda { mark("lambda") }.()
  :upto.to_proc.call(1, 1) { mark("symbol") }
  $out.flush
  Process.wait(fork { mark("fork"); $out.flush; exit!(0) })
  GC.start
  GC.compact if GC.respond_to?(:compact)
end
$out.close
