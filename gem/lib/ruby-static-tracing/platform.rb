# frozen_string_literal: true

module StaticTracing
  # Which system this is.
  module Platform
    module_function

    # @return [Boolean]
    def linux?
      RUBY_PLATFORM.include?('linux')
    end

    # @return [Boolean]
    def darwin?
      RUBY_PLATFORM.include?('darwin')
    end

    # @return [Boolean]
    def supported_platform?
      linux? || darwin?
    end
  end
end
