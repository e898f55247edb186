# Reads the events that test_requests.sh prints. There is a request for each path, with five spans
# whose queries name that path, on the fiber of its begin: `fiber` is the line of ruby:switch before.
paths = Hash.new { |h, k| h[k] = { spans: 0, ends: 0 } }
open = {}
fiber = nil
$stdin.each_line do |line|
  case line
  when /\Aswitch, tid = (\d+), fiber = (\d+)/ then fiber = [$1, $2]
  when /\Arequest_begin.*Falcon.*path = "([^"]*)"/
    abort "#{$1} begins while #{open[fiber]} runs" if open[fiber]
    open[fiber] = $1
  when /\Aspan_begin.*detail = "query of ([^"]*)"/
    abort "a query of #{$1} in #{open[fiber]}" unless open[fiber] == $1
    paths[$1][:spans] += 1
  when /\Arequest_end.*Falcon.*path = "([^"]*)"/
    abort "#{$1} ends, but #{open[fiber]} ran" unless open.delete(fiber) == $1
    paths[$1][:ends] += 1
  end
end
wrong = paths.reject { |_, p| p == { spans: 5, ends: 1 } }
abort "not right: #{wrong.first(5)}" unless wrong.empty?
abort "#{paths.size} requests" unless paths.size == Integer(ARGV[0])
abort "still open: #{open}" unless open.empty?
