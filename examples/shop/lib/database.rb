# SPDX-License-Identifier: MIT
require "sqlite3"

module Shop
  # One connection a thread: SQLite's are not to be shared, nor taken across fork.
  module Database
    PATH = ENV.fetch("SHOP_DB", "/tmp/rutile-shop.db")
    WORDS = %w[red blue small large round old new quiet heavy light].freeze
    THINGS = %w[chair lamp table cup bowl rug clock shelf].freeze

    def self.connection
      Thread.current[:"shop_db_#{Process.pid}"] ||= SQLite3::Database.new(PATH, results_as_hash: true)
    end

    def self.query(sql, *values)
      connection.execute(sql, values)
    end

    def self.prepare
      return if File.size?(PATH)

      db = SQLite3::Database.new(PATH)
      db.execute_batch(<<~SQL)
        create table products (id integer primary key, name text, price integer, tags text);
        create table reviews (id integer primary key, product_id integer, stars integer);
        create index reviews_product on reviews (product_id);
      SQL
      db.transaction { seed(db) }
      db.close
    end

    def self.seed(db)
      random = Random.new(1)
      WORDS.product(THINGS).each_with_index do |(word, thing), i|
        db.execute("insert into products values (?, ?, ?, ?)",
                   [i + 1, "#{word} #{thing}", 100 + random.rand(9900), "#{word},#{thing}"])
        5.times { db.execute("insert into reviews (product_id, stars) values (?, ?)", [i + 1, 1 + random.rand(5)]) }
      end
    end
  end
end
