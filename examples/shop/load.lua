-- SPDX-License-Identifier: MIT
-- For wrk: the pages of the shop in turn, some more often than others.
local paths = {"/", "/products/7", "/cart?ids=1,2,3", "/", "/cart?ids=4&coupon=SPRNG", "/report.csv",
               "/products/42", "/cart?ids=5,6&coupon=FRIEND"}
local n = 0

request = function()
  n = n + 1
  return wrk.format("GET", paths[n % #paths + 1])
end
