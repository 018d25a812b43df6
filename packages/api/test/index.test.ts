import { expect, test } from "vitest";
import * as api from "../src/index.ts";

test("exports exactly these names", () => {
  expect(Object.keys(api).sort()).toEqual(["createApi", "createMetrics"]);
});
