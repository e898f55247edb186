# frozen_string_literal: true

require 'ruby-static-tracing/tracer/helpers'
require 'ruby-static-tracing/tracer/base'
require 'ruby-static-tracing/tracer/latency'
require 'ruby-static-tracing/tracer/stack'
