# frozen_string_literal: true

module Rutile
  # The status that Rails answers an exception with.
  # @api private
  module Status
    module_function

    # @param exception [String, nil] the name of its class; nil: it is not known
    # @return [Integer]
    def of_exception(exception)
      return 500 unless exception && defined?(::ActionDispatch::ExceptionWrapper)

      ::ActionDispatch::ExceptionWrapper.status_code_for_exception(exception).to_i
    end
  end
end
