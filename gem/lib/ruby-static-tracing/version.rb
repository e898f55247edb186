# frozen_string_literal: true

module StaticTracing
  # The version whose interface this is.
  VERSION = '0.0.15'
end
