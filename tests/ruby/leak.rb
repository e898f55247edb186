# Requests, which a cache remembers forever: a session object and its text, among much that is freed.
class Session
  def initialize(id)
    @id = id
    @data = "session data " * 20
  end
end

class Server
  def initialize
    @sessions = {}
  end

  def handle(id)
    @sessions[id] = Session.new(id)
    render(id)
  end

  def render(id)
    (1..50).map { |i| "row #{i} of #{id}" }.join("\n")
  end
end

server = Server.new
# Workers end with their parent, however that ends.
parent = Process.pid
ARGV[0].to_i.times { fork { server.handle(rand(1 << 60)) && sleep(0.001) while Process.ppid == parent } }
puts "ready"
$stdout.flush
id = 0
loop do
  server.handle(id += 1)
  sleep 0.001 if (id % 10).zero?
end
