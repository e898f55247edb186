# SPDX-License-Identifier: MIT
require_relative "app"
run Shop::App
