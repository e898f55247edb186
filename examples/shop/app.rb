# SPDX-License-Identifier: MIT
# A small shop, written as such things are written: it works, and it has something to find.
require "sinatra/base"
require_relative "lib/database"
require_relative "lib/catalog"
require_relative "lib/recommender"
require_relative "lib/coupon"
require_relative "lib/report"

module Shop
  class App < Sinatra::Base
    set :environment, :production
    set :logging, false

    configure { Database.prepare }

    get "/" do
      page "Shop", Catalog.new.listing
    end

    get "/products/:id" do
      product = Catalog.new.find(params["id"]) or halt 404, "no such product\n"
      similar = Recommender.new.similar(product)
      page product["name"], similar.map { |p| item(p) }.join
    end

    get "/cart" do
      total = Catalog.new.total(params.fetch("ids", "1,2,3").split(","))
      page "Cart", "Total: #{Coupon.apply(params["coupon"], total)}"
    end

    get "/report.csv" do
      content_type "text/csv"
      Report.new.to_csv
    end

    private

    def item(product)
      "<li>#{product["name"]}</li>"
    end

    def page(title, body)
      "<html><title>#{title}</title><body>#{body}</body></html>\n"
    end
  end
end
