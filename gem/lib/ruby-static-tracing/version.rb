# frozen_string_literal: true

module StaticTracing
  # The version that has this interface.
  VERSION = '0.0.15'
end
