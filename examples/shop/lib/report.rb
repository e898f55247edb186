# SPDX-License-Identifier: MIT
module Shop
  class Report
    # To find: every += copies all that was written before.
    def to_csv
      csv = "id,name,price\n"
      Database.query("select * from products").each do |p|
        csv += [p["id"], p["name"], p["price"]].map(&:to_s).join(",") + "\n"
      end
      csv
    end
  end
end
