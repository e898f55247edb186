# frozen_string_literal: true

require_relative 'test_helper'

# Spans: identifiers, parents, and how they are passed on; read by babeltrace2 from what `rutile record` wrote.
class SpanTest < Minitest::Test
  START = <<~'RUBY'
    require 'rutile/static_tracing'
    $stdout.sync = true
    9_000.times { Rutile::Span.enabled? ? break : sleep(0.005) } and abort('never')
  RUBY

  Span = Struct.new(:trace, :id, :parent, :name, :duration, :error, :attributes)

  # The spans of a program in the order of their ends, and what it printed.
  def spans(code, event = 'end')
    skip 'no rutile to test with' unless ENV['RUTILE']
    skip 'needs babeltrace2' unless system('command -v babeltrace2 >/dev/null')
    Dir.mktmpdir do |dir|
      ruby = [RbConfig.ruby, "-I#{LIB}", "-I#{EXT}", '-e', START + code]
      out = IO.popen([ENV.fetch('RUTILE'), 'record', '-o', "#{dir}/trace", '-e', "ruby_static:span:#{event}", '--', *ruby],
                     err: %i[child out], &:read)
      assert $?.success?, out
      events = IO.popen(['babeltrace2', "#{dir}/trace"], err: File::NULL, &:readlines)
      [events.map { |line| Span.new(*line.scan(/arg\d+ = ("[^"]*"|-?\d+)/).map { |(v)| v.delete('"') }) }, out]
    end
  end

  def test_identifiers
    found, out = spans(<<~'RUBY')
      p(Rutile.span('outer', order: 7, box: :b) do |outer|
        p [outer.trace_id, outer.id, outer.parent_id, outer.traceparent]
        Rutile.span(:inner) { Rutile.span('in' + 'most') { |span| span.name = 'renamed'; span[:a] = 1.5; span[:b] = nil } }
        begin
          Rutile.span('failed') { raise IOError, 'x' }
        rescue IOError
          Rutile.span('after') { nil }
        end
        catch(:out) { Rutile.span('thrown') { throw :out } }
        Thread.new { Rutile.span('thread') { nil } }.join
        Fiber.new { Rutile.span('fiber') { nil } }.resume
        Process.wait(fork { Rutile.span('child') { nil } })
        p [outer.id, Rutile::Span.traceparent]
        :result
      end)
      p Rutile::Span.traceparent
      Rutile.span('given', nil, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01') { nil }
      ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x', "00-#{'0' * 32}-b7ad6b7169203331-01", 'x' * 55, 5,
       'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'].each { |bad| Rutile.span('bad', nil, bad) { nil } }
      Rutile.span('x') { 2000.times { |i| Rutile.span('many') { nil } } }
    RUBY
    named = found.group_by(&:name)
    outer, = named['outer']
    assert_match(/\A\h{32}\z/, outer.trace)
    assert_includes out, "[\"#{outer.trace}\", \"#{outer.id}\", nil, \"00-#{outer.trace}-#{outer.id}-01\"]\n"
    assert_includes out, "[\"#{outer.id}\", \"00-#{outer.trace}-#{outer.id}-01\"]\n:result\nnil\n"
    assert_equal ['', '', 'order: 7, box: :b'], outer.to_a.values_at(2, 5, 6)
    inner, renamed, failed = named.values_at('inner', 'renamed', 'failed').map(&:first)
    assert_equal [outer.id, inner.id, outer.id], [inner, renamed, failed].map(&:parent)
    assert_equal [outer.trace], [inner, renamed, failed].map(&:trace).uniq
    assert_equal ['a: 1.5, b: nil', 'IOError', '', ''],
                 [renamed.attributes, failed.error, named['after'][0].error, named['thrown'][0].error]
    # Others are traces of their own; a child of a fork goes on with its parent's span.
    assert_equal ['', '', outer.id], (%w[thread fiber child].map { |name| named[name][0].parent })
    assert_equal %w[0af7651916cd43dd8448eb211c80319c b7ad6b7169203331], named['given'][0].to_a.values_at(0, 2)
    assert_equal([''] * 5, named['bad'].map(&:parent))
    assert_equal 2000, named['many'].map(&:id).uniq.size
    assert_equal found.size, found.map(&:id).uniq.size
    assert_operator outer.duration.to_i, :>=, inner.duration.to_i
  end

  # Not traced: the block's value, and nothing else.
  def test_untraced
    objects = lambda do
      before = GC.stat(:total_allocated_objects)
      100.times { Rutile.span('x') { |span| span.name = 'y' } }
      GC.stat(:total_allocated_objects) - before
    end
    objects.call
    assert_operator objects.call, :<, 10
    assert_equal 3, (Rutile.span('x', a: 1) { |span| (span[:b] = 2) + 1 })
    assert_nil(Rutile.span('x') { |span| span.traceparent || span.trace_id || Rutile::Span.traceparent })
    assert_raises(ArgumentError) { Rutile.span { nil } }
    assert_raises(LocalJumpError) { Rutile.span('x') }
  end

  # From a request through Net::HTTP and Faraday into another server, and through a job.
  def test_passed_on
    found, = spans(<<~'RUBY')
      %w[rack net_http faraday sidekiq].each { |name| require "rutile/#{name}" }
      2.times { Rutile::NetHTTP.install }
      require 'socket'
      server = TCPServer.new('127.0.0.1', 0)
      Thread.new do
        inner = Rutile::Rack.new(->(env) { [204, {}, []] })
        loop do
          client = server.accept
          header = nil
          while (line = client.gets) && line != "\r\n"
            header = line.split.last if line =~ /\Atraceparent:/i
          end
          inner.call('REQUEST_METHOD' => 'GET', 'PATH_INFO' => '/inner', 'HTTP_TRACEPARENT' => header)
          client.write("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
          client.close
        end
      end
      job = {}
      app = Rutile::Rack.new(lambda do |env|
        Net::HTTP.start('127.0.0.1', server.addr[1]) { |http| http.request(Net::HTTP::Get.new('/inner')) }
        env = { method: :get, url: URI('http://there/'), request_headers: {} }
        Rutile::Faraday.new(->(e) { p e[:request_headers]['traceparent']; Struct.new(:status).new(201) }).call(env)
        Rutile::Sidekiq::Client.new.call('Hard', job.merge!('class' => 'Hard', 'jid' => 'j'), 'low') { nil }
        [200, {}, []]
      end)
      app.call('REQUEST_METHOD' => 'POST', 'PATH_INFO' => '/outer', 'HTTP_TRACEPARENT' => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00')
      Rutile::Sidekiq::Server.new.call(nil, job, 'low') { nil }
    RUBY
    named = found.to_h { |span| [span.name, span] }
    assert_equal ['GET /inner', 'GET 127.0.0.1', 'GET there', 'push Hard', 'POST /outer', 'job Hard'], found.map(&:name)
    assert_equal ['0af7651916cd43dd8448eb211c80319c'], found.map(&:trace).uniq
    outer = named['POST /outer']
    assert_equal 'b7ad6b7169203331', outer.parent
    assert_equal [outer.id] * 3, ['GET 127.0.0.1', 'GET there', 'push Hard'].map { |name| named[name].parent }
    assert_equal [named['GET 127.0.0.1'].id, named['push Hard'].id], [named['GET /inner'].parent, named['job Hard'].parent]
    assert_equal ['status: 200', 'status: 204', 'status: 201'], (['POST /outer', 'GET /inner', 'GET there'].map { |name| named[name].attributes })
  end

  # The duration is the difference of the times that the recording has: one reading of the clock for each end of a
  # span. With attributes it ends before they become text.
  def test_durations_are_those_of_the_recording
    skip 'no rutile to test with' unless ENV['RUTILE']
    skip 'needs babeltrace2' unless system('command -v babeltrace2 >/dev/null')
    code = "#{START} 50.times { Rutile.span('a') { Rutile.span('b') { nil } } }; Rutile.span('c', d: 1) { nil }"
    Dir.mktmpdir do |dir|
      out = IO.popen([ENV.fetch('RUTILE'), 'record', '-o', "#{dir}/trace", '-e', 'ruby_static:span:*', '--', RbConfig.ruby, "-I#{LIB}", "-I#{EXT}",
                      '-e', code], err: %i[child out], &:read)
      assert $?.success?, out
      lines = IO.popen(['babeltrace2', '--clock-cycles', "#{dir}/trace"], err: File::NULL, &:readlines)
      begins, ends = lines.map { |line| [line[/\A\[0*(\d+)\]/, 1].to_i, line.scan(/arg\d+ = ("[^"]*"|-?\d+)/).flatten] }
                          .partition { |_, values| values.size == 4 }
      assert_equal [101, 101], [begins.size, ends.size]
      starts = begins.to_h { |time, values| [values[1], time] }
      plain, described = ends.partition { |_, values| values[3] != '"c"' }
      assert_equal(plain.map { |time, values| time - starts[values[1]] }, plain.map { |_, values| values[4].to_i })
      assert_equal 1, described.size
      described.each { |time, values| assert_includes 1...(time - starts[values[1]]), values[4].to_i }
    end
  end

  def test_begin
    found, = spans("Rutile.span('a') { Rutile.span('b') { nil } }", 'begin')
    assert_equal [%w[a b], ['', found[0].id]], [found.map(&:name), found.map(&:parent)]
  end
end
