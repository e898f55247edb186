# frozen_string_literal: true

module Rutile
  module ActiveSupport
    # One kind of notification: which, as which tracepoint, with which values of its payload.
    Event = Struct.new(:pattern, :tracepoint, :values)

    # "sql.active_record" without what follows the dot.
    WHAT = ->(name) { name[/\A[^.]+/] }

    # The status of an action. Of one that ended by an exception ActionController reports none.
    STATUS = lambda do |load|
      load[:status] ? load[:status].to_i : Status.of_exception(load[:exception]&.first)
    end

    JOB = lambda do |name, load|
      job = load[:job]
      [WHAT[name], job.class.name.to_s, job.job_id.to_s, job.queue_name.to_s]
    end

    private_constant :WHAT, :STATUS, :JOB

    # What is subscribed to.
    EVENTS = [
      Event.new(/\Asql\.active_record\z/, Tracepoint.new('rails', 'sql', String, String, TrueClass, Integer),
                ->(_, load) { [load[:name].to_s, load[:sql].to_s, load[:cached] ? true : false] }),
      Event.new(/\Arender_\w+\.action_view\z/, Tracepoint.new('rails', 'render', String, String, Integer),
                ->(name, load) { [WHAT[name], load[:identifier].to_s] }),
      Event.new(/\Acache_\w+[?!]?\.active_support\z/, Tracepoint.new('rails', 'cache', String, String, TrueClass, Integer),
                ->(name, load) { [WHAT[name], load[:key].to_s, load[:hit] ? true : false] }),
      Event.new(/\A(?:enqueue|enqueue_at|perform)\.active_job\z/,
                Tracepoint.new('rails', 'job', String, String, String, String, Integer), JOB),
      Event.new(/\Aprocess_action\.action_controller\z/,
                Tracepoint.new('rails', 'action', String, String, Integer, Integer),
                ->(_, load) { [load[:controller].to_s, load[:action].to_s, STATUS[load]] }),
      Event.new(/\Atransaction\.active_record\z/, Tracepoint.new('rails', 'transaction', String, Integer),
                ->(_, load) { [load[:outcome].to_s] }),
      Event.new(/\A(?:process|deliver)\.action_mailer\z/, Tracepoint.new('rails', 'mail', String, String, String, Integer),
                ->(name, load) { [WHAT[name], load[:mailer].to_s, (load[:action] || load[:message_id]).to_s] }),
      Event.new(/\A\w+\.action_cable\z/, Tracepoint.new('rails', 'cable', String, String, String, Integer),
                ->(name, load) { [WHAT[name], (load[:channel_class] || load[:broadcasting]).to_s, load[:action].to_s] }),
      Event.new(/\A\w+\??\.active_storage\z/, Tracepoint.new('rails', 'storage', String, String, String, Integer),
                ->(name, load) { [WHAT[name], load[:service].to_s, load[:key].to_s] })
    ].freeze

    # The statements in which transactions are found where Rails does not report them.
    STATEMENTS = Event.new(/\Asql\.active_record\z/, Tracepoint.fetch('rails', 'transaction'), nil)
    private_constant :STATEMENTS
  end
end
