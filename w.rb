def w; end
began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
w while (n = n.to_i + 1) <= 1000
File.write("agents", File.read("/proc/self/maps").scan(/^.*rutile-agent-.*$/).uniq.size)
