# SPDX-License-Identifier: MIT
# Two workers, as a small production server would have.
directory __dir__
tag "shop"
environment "production"
workers Integer(ENV.fetch("SHOP_WORKERS", 2))
threads 2, 2
bind "tcp://127.0.0.1:#{ENV.fetch("PORT", 9292)}"
preload_app!
quiet
