# SPDX-License-Identifier: MIT
# A server that never stops allocating and starting threads: server.rb. Answers each connection
# with one line, and prints "ready PORT". On "storm" it does much more of that
# from then on: an answer takes up to 0.5 s then, because Ruby's threads wait for each other (3.3: four
# time slices of 100 ms each time).
require "socket"

server = TCPServer.new("127.0.0.1", 0)

# Allocation and threads in tight loops beside the requests.
def churn(n)
  Array.new(n) { |i| "#{i}" * 20 }.map(&:hash).sum
end

def storm
  Thread.new { loop { Thread.new { churn(20) }.join } }
  Thread.new { loop { churn(200); "x" * 200_000; Array.new(50_000) } }
end

Thread.new { loop { sleep 0.01; churn(5) } }
$stdout.puts "ready #{server.addr[1]}"
$stdout.flush
loop do
  Thread.new(server.accept) do |s|
    storm if s.gets == "storm\n"
    s.puts "answer #{churn(10)}"
    s.close
  end
end
