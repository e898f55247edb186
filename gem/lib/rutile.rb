# frozen_string_literal: true

require 'rutile/static_tracing'
