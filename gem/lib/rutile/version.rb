# frozen_string_literal: true

module Rutile
  # The version of the gem, which is that of rutile.
  VERSION = '0.1.0'
end
